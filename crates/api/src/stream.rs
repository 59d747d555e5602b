//! One client's event stream.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use everturn_engine::mint::Mint;
use everturn_engine::projects::Location;
use futures_util::stream;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::App;
use crate::hub::{EventFrame, HubItem, frame, payload, wrap};

/// How often a quiet stream shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// What a stream shows.
#[derive(Debug)]
pub(crate) enum StreamScope {
    /// Everything, each event with its place.
    Global,
    /// What happens in one place, bare.
    Of { project: String, directory: String },
}

impl StreamScope {
    /// What happens in a place.
    pub(crate) fn of(location: &Location) -> Self {
        Self::Of { project: location.project.id.clone(), directory: location.directory.display().to_string() }
    }

    fn show(&self, frame: &EventFrame) -> Option<Bytes> {
        match self {
            Self::Global => Some(frame.wrapped()),
            Self::Of { project, directory } => frame.is_in(project, directory).then(|| frame.bare()),
        }
    }

    // What the server itself says has no place.
    fn say(&self, mint: &Mint, kind: &str) -> Bytes {
        let payload = payload(mint, kind, &json!({}));
        match self {
            Self::Global => wrap(&payload, None),
            Self::Of { .. } => frame(&payload),
        }
    }
}

struct Stream {
    scope: StreamScope,
    mint: Mint,
    greeted: bool,
    drafts: std::vec::IntoIter<EventFrame>,
    items: broadcast::Receiver<HubItem>,
    heartbeat: Interval,
    closing: CancellationToken,
}

impl Stream {
    fn new(
        scope: StreamScope,
        mint: Mint,
        (drafts, items): (Vec<EventFrame>, broadcast::Receiver<HubItem>),
        closing: CancellationToken,
    ) -> Self {
        let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { scope, mint, greeted: false, drafts: drafts.into_iter(), items, heartbeat, closing }
    }

    async fn next(&mut self) -> Option<Bytes> {
        if !self.greeted {
            self.greeted = true;
            return Some(self.scope.say(&self.mint, "server.connected"));
        }
        if let Some(bytes) = self.drafts.find_map(|frame| self.scope.show(&frame)) {
            return Some(bytes);
        }
        loop {
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                item = self.items.recv() => match item {
                    Ok(HubItem::Event(frame)) => if let Some(bytes) = self.scope.show(&frame) {
                        return Some(bytes);
                    },
                    // Missed something: better to end than to go on with a gap.
                    Ok(HubItem::Gap) | Err(_) => return None,
                },
                _ = self.heartbeat.tick() => return Some(self.scope.say(&self.mint, "server.heartbeat")),
            }
        }
    }
}

/// Opens a stream. It begins with the text that is streaming, and whatever happens after this returns is in it.
pub(crate) fn open(app: &App, scope: StreamScope) -> Response {
    let (mint, closing) = (app.engine.mint().clone(), app.hub.closing().clone());
    let subscription = app.hub.subscribe(&mint);
    let stream = Stream::new(scope, mint, subscription, closing);
    let frames = stream::unfold(stream, |mut stream| async move {
        stream.next().await.map(|bytes| (Ok::<_, Infallible>(bytes), stream))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache, no-transform"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everturn_engine::world::System;

    use super::*;

    fn stream(scope: StreamScope) -> (broadcast::Sender<HubItem>, CancellationToken, Stream) {
        let (sender, items) = broadcast::channel(4);
        let closing = CancellationToken::new();
        let stream = Stream::new(scope, Mint::new(Arc::new(System)), (Vec::new(), items), closing.clone());
        (sender, closing, stream)
    }

    fn event(directory: &str, project: &str, kind: &str) -> HubItem {
        HubItem::Event(Arc::new(EventFrame::new(directory, project, format!("{{\"type\":\"{kind}\"}}"))))
    }

    async fn next(stream: &mut Stream) -> Option<String> {
        stream.next().await.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn who_falls_behind_is_ended() {
        let (sender, _closing, mut stream) = stream(StreamScope::Global);
        for _ in 0..5 {
            sender.send(event("/a", "p", "x")).unwrap();
        }
        assert!(next(&mut stream).await.unwrap().contains("server.connected"));
        assert_eq!(next(&mut stream).await, None);
    }

    #[tokio::test]
    async fn a_gap_and_the_end_of_the_server_end_a_stream() {
        let (sender, _closing, mut first) = stream(StreamScope::Global);
        sender.send(HubItem::Gap).unwrap();
        next(&mut first).await.unwrap();
        assert_eq!(next(&mut first).await, None);
        let (_sender, closing, mut second) = stream(StreamScope::Global);
        next(&mut second).await.unwrap();
        closing.cancel();
        assert_eq!(next(&mut second).await, None);
    }

    #[tokio::test]
    async fn frames_are_bare_or_wrapped() {
        let (sender, _closing, mut global) = stream(StreamScope::Global);
        sender.send(event("/a \"b\"", "p", "x")).unwrap();
        assert!(next(&mut global).await.unwrap().starts_with("data: {\"payload\":{\"id\":\"evt_"));
        let wrapped =
            "data: {\"directory\":\"/a \\\"b\\\"\",\"project\":\"p\",\"payload\":{\"type\":\"x\"}}\n\n";
        assert_eq!(next(&mut global).await.unwrap(), wrapped);
        let place = StreamScope::Of { project: "p".to_owned(), directory: "/a".to_owned() };
        let (sender, _closing, mut here) = stream(place);
        next(&mut here).await.unwrap();
        sender.send(event("/b", "other", "hidden")).unwrap();
        sender.send(event("/a/sub", "p", "shown")).unwrap();
        assert_eq!(next(&mut here).await.unwrap(), "data: {\"type\":\"shown\"}\n\n");
    }

    #[tokio::test]
    async fn outside_of_projects_each_folder_is_its_own() {
        let place = StreamScope::Of { project: "global".to_owned(), directory: "/a".to_owned() };
        let (sender, _closing, mut here) = stream(place);
        next(&mut here).await.unwrap();
        sender.send(event("/b", "global", "hidden")).unwrap();
        sender.send(event("/a", "global", "shown")).unwrap();
        assert!(next(&mut here).await.unwrap().contains("shown"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_shows_that_it_is_alive() {
        let (_sender, _closing, mut stream) = stream(StreamScope::Global);
        next(&mut stream).await.unwrap();
        let before = Instant::now();
        assert!(next(&mut stream).await.unwrap().contains("server.heartbeat"));
        assert_eq!(before.elapsed(), HEARTBEAT);
    }
}
