//! From what a person typed to a session, or to what they may have meant.

use anyhow::{Error, Result, anyhow};
use everturn_engine::Engine;
use everturn_engine::sessions::{ArchivedSessions, Filter};
use everturn_model::{Session, SessionId};

use crate::table;

/// How many ids are suggested.
const SUGGESTED: usize = 3;

/// A session that is not in the trash.
pub(in crate::commands) async fn listed(engine: &Engine, text: &str) -> Result<Session> {
    let id = SessionId::new(text);
    match engine.sessions().get(&id).await {
        Ok(session) => Ok(session),
        Err(everturn_engine::Error::NoSession(_)) => {
            if engine.trash().find(&id).await?.is_some() {
                return Err(anyhow!(
                    "{id} is in the trash; `everturn session restore {id}` takes it out again"
                ));
            }
            Err(missing(engine, &id).await?)
        }
        Err(error) => Err(error.into()),
    }
}

/// A session in the trash.
pub(super) async fn trashed(engine: &Engine, text: &str) -> Result<Session> {
    let id = SessionId::new(text);
    if let Some(session) = engine.trash().find(&id).await? {
        return Ok(session);
    }
    match engine.sessions().get(&id).await {
        Ok(_) => Err(anyhow!("{id} is not in the trash; nothing was changed")),
        Err(everturn_engine::Error::NoSession(_)) => Err(missing(engine, &id).await?),
        Err(error) => Err(error.into()),
    }
}

/// A session, wherever it is.
pub(super) async fn anywhere(engine: &Engine, text: &str) -> Result<Session> {
    match engine.trash().find(&SessionId::new(text)).await? {
        Some(session) => Ok(session),
        None => listed(engine, text).await,
    }
}

/// A session that is to be deleted for good: also one of which nothing but the id can be read.
pub(super) async fn doomed(engine: &Engine, text: &str) -> Result<(SessionId, Option<Session>)> {
    use everturn_store::Error::Corrupt;
    match anywhere(engine, text).await {
        Ok(session) => Ok((session.id.clone(), Some(session))),
        Err(error) => match error.downcast_ref() {
            Some(everturn_engine::Error::Store(Corrupt { .. })) => Ok((SessionId::new(text), None)),
            _ => Err(error),
        },
    }
}

/// What to say when there is no such session.
async fn missing(engine: &Engine, id: &SessionId) -> Result<Error> {
    if let Some(time) = engine.trash().purged(id).await? {
        return Ok(anyhow!("{id} was deleted for good at {}", table::moment(time)));
    }
    let mut near = Vec::new();
    for trashed in [false, true] {
        let all = Filter { archived: ArchivedSessions::Included, trashed, ..Filter::default() };
        near.extend(engine.sessions().list(all).await?.into_iter().map(|session| session.id));
    }
    near.retain(|other| is_near(id.as_str(), other.as_str()));
    let shown: Vec<String> = near.iter().take(SUGGESTED).map(ToString::to_string).collect();
    Ok(if shown.is_empty() {
        anyhow!("session not found: {id}; `everturn session list --all` lists what there is")
    } else {
        anyhow!("session not found: {id}, did you mean {}?", shown.join(" or "))
    })
}

/// Whether somebody who typed `text` may have meant `id`: it was cut short, or a character or two are wrong.
fn is_near(text: &str, id: &str) -> bool {
    let cut_short = text.len() > "ses_".len() && id.starts_with(text);
    let mistyped =
        text.len() == id.len() && text.bytes().zip(id.bytes()).filter(|(a, b)| a != b).count() <= 2;
    cut_short || mistyped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_found() {
        let id = "ses_0123456789abcdef";
        for text in ["ses_01", "ses_0123456789abcdee", "ses_0123456798abcdef"] {
            assert!(is_near(text, id), "{text}");
        }
        for text in ["ses_", "ses_1", "ses_0123456789abfecd", "0123456789abcdef"] {
            assert!(!is_near(text, id), "{text}");
        }
    }
}
