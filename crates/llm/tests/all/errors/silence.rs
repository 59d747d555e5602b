//! Nothing arrives for too long. The clock is stopped once the server stands still, so that the limit is reached at
//! once.

use everturn_llm::StreamEvent;
use everturn_testkit::ModelServer;
use futures_util::StreamExt;

use super::{PROTOCOLS, ask, failure, told};

#[tokio::test]
async fn after_the_first_byte() {
    for protocol in PROTOCOLS {
        let server = ModelServer::start();
        let mut stream = ask(server.base_url(), protocol, "HOLD:h SAY:one two");
        while !matches!(stream.next().await.unwrap().unwrap(), StreamEvent::TextDelta { .. }) {}
        server.held("h").await;
        tokio::time::pause();
        let error = failure(stream).await;
        tokio::time::resume();
        assert_eq!(told(&error), "silence after the first byte, again after 2 s", "{protocol}");
        assert_eq!(error.to_string(), "the provider sent nothing for 300 seconds");
    }
}

#[tokio::test]
async fn before_the_first_byte() {
    for protocol in PROTOCOLS {
        let server = ModelServer::start();
        let mut failing = Box::pin(failure(ask(server.base_url(), protocol, "MUTE:m SAY:one two")));
        tokio::select! {
            error = &mut failing => panic!("{error:?}"),
            () = server.held("m") => {}
        }
        tokio::time::pause();
        let error = failing.await;
        tokio::time::resume();
        assert_eq!(told(&error), "silence before the first byte, again after 2 s", "{protocol}");
        server.release("m");
    }
}
