//! The recorded data, and a session through the log.

use std::path::{Path, PathBuf};

use everturn_interop::opencode::Imported;
use everturn_interop::opencode::v1::{self, ReadNode};
use everturn_model::event::Record;
use everturn_model::inbox::InboxItem;
use everturn_model::tree::{Node, NodeJson};
use everturn_model::{Event, EventId, SessionId, Tree, fold};

/// A folder or file of the recorded data.
pub(super) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/opencode").join(name)
}

/// An archive of the recorded data, unpacked.
pub(super) fn unpacked(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::open(fixture(name)).unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(file)).unpack(folder.path()).unwrap();
    folder
}

/// The tree of an imported session, folded from its first two events after these went through storage.
pub(super) fn folded(imported: &Imported) -> Tree {
    let created = Event::SessionCreated { session: Box::new(imported.session.clone()) };
    let seeded =
        Event::SessionImported { dialect: "opencode".to_owned(), seed: Box::new(imported.seed.clone()) };
    let records = [created, seeded].into_iter().enumerate().map(|(seq, event)| {
        let stored = serde_json::to_string(&event).unwrap();
        Record {
            id: EventId::new(format!("evt_{seq}")),
            session: imported.session.id.clone(),
            seq: seq as u64,
            time: imported.session.time.created,
            event: serde_json::from_str(&stored).unwrap(),
            subject: None,
        }
    });
    fold::replay(&records.collect::<Vec<_>>()).unwrap().unwrap()
}

/// The messages of a path, written from the JSON that its nodes are stored as.
pub(super) fn from_stored<'a>(
    session: &SessionId,
    path: &[&Node],
    inbox: impl IntoIterator<Item = &'a InboxItem>,
) -> String {
    let stored: Vec<NodeJson> = path.iter().map(|node| NodeJson::of(node).unwrap()).collect();
    let read = ReadNode::all(&stored).unwrap();
    let inbox: Vec<InboxItem> = inbox.into_iter().cloned().collect();
    String::from_utf8(v1::stored_conversation(session, &read, &inbox).to_json(0).unwrap()).unwrap()
}
