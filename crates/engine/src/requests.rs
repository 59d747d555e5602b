//! Permission requests and questions: asked durably, answered by anybody, waited for by the call.
//!
//! - `approvals`: what people approve for good, and by which rules a call goes on that has waited
//! - `trust`: requests for trust in a project, for which nothing waits
//! - `waiting_calls`: the calls that wait for an answer

mod approvals;
pub(crate) mod trust;
mod waiting_calls;

use everturn_model::budget::BudgetPause;
use everturn_model::permission::{Action, Policy, Rule};
use everturn_model::request::{Ask, CallRef, Reply, Request};
use everturn_model::{Event, PartId, RequestId, Session, SessionId};
use everturn_store::Store;
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::configurations::Configurations;
use crate::feed_follower::MissedUpdates;
use crate::journal::Journal;
use crate::lifecycle::Lifecycle;
pub(crate) use approvals::kept_policy;
use trust::TrustRequests;
pub(crate) use waiting_calls::{RequestAnswer, WaitingCalls};

/// Asks people, takes their answers and keeps what they approve; clones share it.
#[derive(Debug, Clone)]
pub struct Requests {
    store: Store,
    journal: Journal,
    configurations: Configurations,
    trust: TrustRequests,
    missed: MissedUpdates,
    lifecycle: Lifecycle,
    waiting: WaitingCalls,
}

impl Requests {
    /// The requests of a store's sessions.
    pub(crate) fn new(
        store: Store,
        journal: Journal,
        configurations: Configurations,
        trust: TrustRequests,
        waiting: WaitingCalls,
        missed: MissedUpdates,
        lifecycle: Lifecycle,
    ) -> Self {
        Self { store, journal, configurations, trust, missed, lifecycle, waiting }
    }

    /// Requests that wait for a person, with their sessions.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn waiting(&self) -> Result<Vec<(SessionId, Request)>, Error> {
        Ok(self.store.requests().await?)
    }

    /// Asks the person and waits for the answer. The request is on disk before anybody sees it. `policy` is what the turn that
    /// asks may do: the call goes on by that after a restart, and an approval of something else releases it by that.
    pub(crate) async fn ask(
        &self,
        session: &Session,
        ask: Ask,
        call: CallRef,
        policy: &Policy,
        cancel: &CancellationToken,
    ) -> Result<RequestAnswer, Error> {
        let mint = self.journal.mint();
        let id = match &ask {
            Ask::Permission { .. } => mint.request(),
            Ask::Question { .. } => mint.question(),
        };
        self.ask_as(session, Request::new(id, mint.now(), ask, Some(call)).under(policy), cancel).await
    }

    /// Asks whether work goes on that no call waits for, and waits for the answer.
    pub(crate) async fn ask_between_turns(
        &self,
        session: &Session,
        ask: Ask,
        cancel: &CancellationToken,
    ) -> Result<RequestAnswer, Error> {
        let mint = self.journal.mint();
        self.ask_as(session, Request::new(mint.request(), mint.now(), ask, None), cancel).await
    }

    async fn ask_as(
        &self,
        session: &Session,
        request: Request,
        cancel: &CancellationToken,
    ) -> Result<RequestAnswer, Error> {
        let waiting = self.waiting.wait(&request);
        let event = Event::RequestAsked { request: Box::new(request.clone()) };
        self.journal.append(&session.id, vec![event]).await?;
        self.answered(&session.id, &request, waiting, cancel).await
    }

    /// Waits again for a request that an earlier process asked.
    pub(crate) async fn ask_again(
        &self,
        session: &Session,
        request: &Request,
        cancel: &CancellationToken,
    ) -> Result<RequestAnswer, Error> {
        let waiting = self.waiting.wait(request);
        // The answer may have come before this process waited for it: then the call has it.
        if self.store.request(&request.id).await?.is_none() {
            return self.given_answer(&session.id, request).await;
        }
        self.answered(&session.id, request, waiting, cancel).await
    }

    /// The answer that a request got, from the call that made it. A call that has settled needs none.
    async fn given_answer(&self, session: &SessionId, request: &Request) -> Result<RequestAnswer, Error> {
        let Some(call) = &request.call else { return Ok(RequestAnswer::Interrupted) };
        let node = self.store.node(session, &call.entry).await?;
        let open = node.into_iter().flat_map(|node| node.parts).filter_map(|part| part.open);
        let mut last = open.filter_map(|open| open.request);
        let answer = last.find(|last| last.request.id == request.id).and_then(|last| last.answer);
        Ok(answer.map_or(RequestAnswer::Interrupted, RequestAnswer::of))
    }

    async fn answered(
        &self,
        session: &SessionId,
        request: &Request,
        waiting: oneshot::Receiver<RequestAnswer>,
        cancel: &CancellationToken,
    ) -> Result<RequestAnswer, Error> {
        tokio::select! {
            answer = waiting => Ok(answer.unwrap_or(RequestAnswer::Interrupted)),
            () = self.missed.answered(&request.id) => self.given_answer(session, request).await,
            // The process ends: the request stays for the next one.
            () = self.lifecycle.closing() => Ok(RequestAnswer::Interrupted),
            () = cancel.cancelled() => {
                // Somebody may have answered at the same moment.
                let event = permission_answer(request, Reply::Reject, None);
                self.journal.append(session, vec![event]).await.ok();
                Ok(RequestAnswer::Interrupted)
            }
        }
    }

    /// Answers what a call still asks that is about to settle without an answer: nobody waits for one any more. `earlier`
    /// is what an earlier process asked for it.
    pub(crate) async fn withdraw(
        &self,
        session: &SessionId,
        part: &PartId,
        earlier: Option<&Request>,
    ) -> Result<(), Error> {
        let Some(request) = self.waiting.request_of(part).or_else(|| earlier.cloned()) else { return Ok(()) };
        if self.store.request(&request.id).await?.is_none() {
            return Ok(());
        }
        let event = permission_answer(&request, Reply::Reject, None);
        ignore_gone(self.settle(session, &request.id, event).await)
    }

    /// Takes back a request that nobody has to answer any more.
    pub(crate) async fn take_back(&self, session: &SessionId, request: &Request) -> Result<(), Error> {
        let event = Event::RequestAnswered {
            id: request.id.clone(),
            call: request.call.clone(),
            reply: None,
            message: None,
            answers: None,
            follows: None,
        };
        ignore_gone(self.settle(session, &request.id, event).await)
    }

    /// Answers a permission request. `always` also releases what it now allows elsewhere in the folder; `reject` also
    /// rejects what else this session waits for.
    ///
    /// # Errors
    /// When nobody waits for it.
    pub async fn reply(&self, id: &RequestId, reply: Reply, message: Option<String>) -> Result<(), Error> {
        let (row, request) = self.asked(id).await?;
        if request.trust_digest().is_some() {
            return self.trust.reply(&row, &request, reply, message).await;
        }
        let session = row.id.clone();
        let Ask::Permission { permission, always, .. } = &request.ask else {
            return Err(Error::NoRequest(id.clone()));
        };
        // That is granted to the session, which the answer says, and to no other.
        let is_granted_here = BudgetPause::of(&request).is_some();
        if reply == Reply::Always && !is_granted_here {
            let rules = always.iter().map(|pattern| Rule::new(permission, pattern, Action::Allow)).collect();
            self.approve(&row, rules).await?;
        }
        match reply {
            Reply::Reject => self.reject(&session, &request, message).await,
            Reply::Once => self.settle(&session, id, permission_answer(&request, reply, message)).await,
            Reply::Always => {
                self.settle(&session, id, permission_answer(&request, reply, message)).await?;
                if is_granted_here { Ok(()) } else { self.release(&row).await }
            }
        }
    }

    /// Rejects a request and with it all that the session waits for, at once and with the same words: if a call that was
    /// rejected without any were settled first, the work would stop and the model would never hear them.
    async fn reject(
        &self,
        session: &SessionId,
        request: &Request,
        message: Option<String>,
    ) -> Result<(), Error> {
        loop {
            let mut others = self.waiting().await?;
            // No call waits for trust in the project.
            others.retain(|(other, waiting)| {
                other == session && waiting.trust_digest().is_none() && waiting.id != request.id
            });
            let follows = others.iter().map(|(_, other)| Event::RequestAnswered {
                id: other.id.clone(),
                call: other.call.clone(),
                reply: Some(Reply::Reject),
                message: message.clone(),
                answers: None,
                follows: Some(request.id.clone()),
            });
            let first = permission_answer(request, Reply::Reject, message.clone());
            let events = [first].into_iter().chain(follows).collect();
            match settle(&self.journal, session, &request.id, events).await {
                // Somebody has answered one of the others meanwhile.
                Err(Error::NoRequest(_)) if self.store.request(&request.id).await?.is_some() => {}
                settled => return settled,
            }
        }
    }

    /// Answers a question: the chosen labels, or words of the person's own, for each question that was asked.
    ///
    /// # Errors
    /// When nobody waits for it, or the answers are not as many as the questions.
    pub async fn answer(&self, id: &RequestId, answers: Vec<Vec<String>>) -> Result<(), Error> {
        let (session, request, asked) = self.question(id).await?;
        if answers.len() != asked {
            let text = format!(
                "{asked} questions were asked and {} answered: send one list of labels for each question",
                answers.len()
            );
            return Err(Error::Invalid(text));
        }
        let event = Event::RequestAnswered {
            id: id.clone(),
            call: request.call,
            reply: None,
            message: None,
            answers: Some(json!(answers)),
            follows: None,
        };
        self.settle(&session, id, event).await
    }

    /// Says that the person does not want to answer a question.
    ///
    /// # Errors
    /// When nobody waits for it.
    pub async fn dismiss(&self, id: &RequestId) -> Result<(), Error> {
        let (session, request, _) = self.question(id).await?;
        self.settle(&session, id, permission_answer(&request, Reply::Reject, None)).await
    }

    /// Takes back a request for trust in a project where nobody is there to decide: whoever works in the session later is
    /// asked again.
    ///
    /// # Errors
    /// When nobody waits for it, or a call does.
    pub async fn put_off(&self, id: &RequestId) -> Result<(), Error> {
        let (session, request) = self.asked(id).await?;
        match request.trust_digest() {
            Some(_) => self.trust.put_off(&session.id, &request).await,
            None => Err(Error::NoRequest(id.clone())),
        }
    }

    /// The session that waits for a question, the request, and how many questions there are in it.
    async fn question(&self, id: &RequestId) -> Result<(SessionId, Request, usize), Error> {
        let (session, request) = self.asked(id).await?;
        match &request.ask {
            Ask::Question { questions } => {
                let count = questions.as_array().map_or(0, Vec::len);
                Ok((session.id, request, count))
            }
            Ask::Permission { .. } => Err(Error::NoRequest(id.clone())),
        }
    }

    /// A request that waits, with its session. In the trash nothing waits for an answer.
    async fn asked(&self, id: &RequestId) -> Result<(Session, Request), Error> {
        let (session, request) = self.store.request(id).await?.ok_or_else(|| Error::NoRequest(id.clone()))?;
        match self.journal.session(&session).await {
            Err(Error::NoSession(_)) => Err(Error::NoRequest(id.clone())),
            session => Ok((session?, request)),
        }
    }

    async fn settle(&self, session: &SessionId, id: &RequestId, event: Event) -> Result<(), Error> {
        settle(&self.journal, session, id, vec![event]).await
    }
}

/// Records an answer. The call that waits for it, here or in another process, is given it by the feed.
async fn settle(
    journal: &Journal,
    session: &SessionId,
    id: &RequestId,
    events: Vec<Event>,
) -> Result<(), Error> {
    match journal.append(session, events).await {
        Ok(_) => Ok(()),
        // Two answers at once: the first one counts.
        Err(Error::Store(everturn_store::Error::Unfit { .. })) => Err(Error::NoRequest(id.clone())),
        Err(error) => Err(error),
    }
}

/// Whether one of the other requests could be answered. If somebody was faster, or took its session away, the answer
/// that was given has still succeeded.
fn ignore_gone(settled: Result<(), Error>) -> Result<(), Error> {
    match settled {
        Err(Error::NoRequest(_) | Error::NoSession(_)) => Ok(()),
        settled => settled,
    }
}

/// The answer to a permission request, as an event.
fn permission_answer(request: &Request, reply: Reply, message: Option<String>) -> Event {
    let (id, call) = (request.id.clone(), request.call.clone());
    Event::RequestAnswered { id, call, reply: Some(reply), message, answers: None, follows: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_answer_at_the_same_moment_is_no_failure() {
        // A reply that had taken effect was answered with 404 when another client answered a further request of the
        // session, or deleted a session, while the others were gone through.
        let gone = || RequestId::from("per_1");
        assert!(ignore_gone(Err(Error::NoRequest(gone()))).is_ok());
        assert!(ignore_gone(Err(Error::NoSession(SessionId::from("ses_1")))).is_ok());
        assert!(ignore_gone(Err(Error::Conflict("x".to_owned()))).is_err());
        assert!(ignore_gone(Ok(())).is_ok());
    }
}
