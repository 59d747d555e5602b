//! Who has made a connection, looked up for all that wait together: each look is at the open files of every process, and many
//! connections must not mean many looks.

use std::net::SocketAddr;
use std::sync::PoisonError;

use everturn_engine::peer::{self, PeerProcess};
use tokio::sync::{Mutex, oneshot};

/// A connection of which it is asked who has made it, by its other end and ours.
struct OpenQuestion {
    peer: SocketAddr,
    local: SocketAddr,
    answer: oneshot::Sender<PeerProcess>,
}

/// Those that the next look is for.
static WAITING: std::sync::Mutex<Vec<OpenQuestion>> = std::sync::Mutex::new(Vec::new());

/// Held by whoever looks for all.
static LOOKING: Mutex<()> = Mutex::const_new(());

/// Our own end of a connection, which each of its requests brings along.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalEnd(pub(crate) SocketAddr);

/// Who has made the connection between these two ends, by a look that begins after it was asked for.
pub(crate) async fn find(peer: SocketAddr, local: SocketAddr) -> PeerProcess {
    let (answer, answered) = oneshot::channel();
    waiting().push(OpenQuestion { peer, local, answer });
    {
        let _turn = LOOKING.lock().await;
        let all = std::mem::take(&mut *waiting());
        if !all.is_empty() {
            // Goes on if whoever waits here is gone: the others still want to know.
            let looked = tokio::task::spawn_blocking(move || answer_all(all));
            looked.await.unwrap_or_else(|error| {
                tracing::error!(error = error.to_string(), "nobody could be looked up");
            });
        }
    }
    // Nothing is decided on a guess.
    answered.await.unwrap_or(PeerProcess::Gone)
}

fn answer_all(questions: Vec<OpenQuestion>) {
    let ends: Vec<_> = questions.iter().map(|question| (question.peer, question.local)).collect();
    for (question, found) in questions.into_iter().zip(peer::callers(&ends)) {
        // Whoever has left meanwhile does not need it.
        question.answer.send(found).ok();
    }
}

fn waiting() -> std::sync::MutexGuard<'static, Vec<OpenQuestion>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn each_gets_its_own_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let mut kept = Vec::new();
        let mut asked = Vec::new();
        for at in 0..20 {
            let stream = TcpStream::connect(local).await.unwrap();
            let (accepted, peer) = listener.accept().await.unwrap();
            let leaves = at % 3 == 0;
            kept.push((accepted, (!leaves).then_some(stream)));
            asked.push((peer, leaves));
        }
        let found = join_all(asked.iter().map(|(peer, _)| find(*peer, local))).await;
        let expected = asked
            .iter()
            .map(|(_, leaves)| if *leaves { PeerProcess::Gone } else { PeerProcess::Person })
            .collect::<Vec<_>>();
        assert_eq!(found, expected);
    }
}
