//! Moving a session to another folder, where it goes on.
//!
//! Its messages stay as they are; what the model is told of its surroundings begins anew with the next turn. Files stay
//! where they are too.

use everturn_model::{Event, Map, Session, SessionId};

use super::Sessions;
use crate::Error;
use crate::background::blocking;
use crate::family::Family;
use crate::projects::Location;

impl Sessions {
    /// Moves a session to another folder, with those that belong to it and are in the same one.
    ///
    /// # Errors
    /// When there is no such session or folder, the session is at work or has a turn that is not finished, or a revert is
    /// staged: its files are here.
    pub async fn relocate(&self, id: &SessionId, directory: &str) -> Result<Session, Error> {
        let session = self.get(id).await?;
        let location = self.projects.location(Some(directory)).await?;
        let folder = location.directory.clone();
        if !blocking(move || folder.is_dir()).await? {
            return Err(Error::Invalid(format!("{directory} is no folder that can be read")));
        }
        let mut family = Family::of(id);
        while let Some(parent) = family.next() {
            let mut children = self.children(&parent).await?;
            children.retain(|child| child.directory == session.directory);
            children.iter().try_for_each(check_finished)?;
            family.add(children.into_iter().map(|child| child.id));
        }
        // The session that was named comes first: if it is at work, nothing is moved.
        for member in family.into_members() {
            self.relocate_one(&member, &location).await?;
        }
        self.get(id).await
    }

    async fn relocate_one(&self, id: &SessionId, location: &Location) -> Result<(), Error> {
        let event = Event::SessionMoved {
            project: location.project.id.clone(),
            directory: location.directory.display().to_string(),
            path: Some(location.path.clone()),
            extra: Map::new(),
        };
        let relocate = |lease| async move {
            let session = self.get(id).await?;
            check_finished(&session)?;
            if session.revert.is_some() {
                let reason = "has a staged revert, whose files are here; finish it or take it back first";
                return Err(Error::Invalid(format!("{id} {reason}")));
            }
            let place = (session.project.as_str(), session.directory.as_str());
            if place != (location.project.id.as_str(), location.directory.display().to_string().as_str()) {
                self.journal.append_owned(&lease, vec![event]).await?;
            }
            Ok(())
        };
        self.leases.at_rest(id, relocate).await
    }
}

/// A turn that a process left open changed files here, and what it asked a person for was meant for here.
fn check_finished(session: &Session) -> Result<(), Error> {
    if !session.open {
        return Ok(());
    }
    let id = &session.id;
    let ways = "`everturn session resume` goes on with it, `everturn session abort` ends it";
    Err(Error::Invalid(format!("{id} has a turn that is not finished: {ways}; then it can be moved")))
}
