//! The file with the token that clients must show.
//!
//! Whoever has the token can do what this account can, so a token that somebody else wrote, or can read, is worth less
//! than none. The file must be an ordinary one of this account that nobody else can read, in a folder that nobody else can
//! write to; everything else is refused, and the message says what to do.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The longest token, in bytes.
const LONGEST: u64 = 4096;

/// The token in a file, which is made with `fresh` if there is none.
pub(crate) fn read_or_make(path: &Path, fresh: impl FnOnce() -> Result<String>) -> Result<String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    check_folder(folder)?;
    if let Some(token) = read(path)? {
        return Ok(token);
    }
    make(path, folder, &fresh()?)?;
    // Another process may have been faster: its token counts.
    read(path)?.with_context(|| format!("{} was removed at once", path.display()))
}

/// Refuses a folder in which somebody else could put a file.
fn check_folder(folder: &Path) -> Result<()> {
    let found = std::fs::metadata(folder).with_context(|| format!("cannot use {}", folder.display()))?;
    if found.uid() != geteuid().as_raw() {
        bail!(
            "the folder {} belongs to somebody else, who could replace the token in it: name a folder of your own with \
             EVERTURN_DATA",
            folder.display()
        );
    }
    if found.permissions().mode() & 0o022 != 0 {
        bail!(
            "others may write to the folder {0}, and could replace the token in it: run `chmod go-w {0}`",
            folder.display()
        );
    }
    Ok(())
}

/// The token, if there is a file.
fn read(path: &Path) -> Result<Option<String>> {
    let shown = path.display();
    // Of the open file, and not of the path, which may lead elsewhere a moment later.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => {
            bail!(
                "{shown} is a link, and a token is only read from the file itself: remove it for a new token"
            )
        }
        Err(error) => bail!("cannot read {shown}: {error}"),
    };
    let found = file.metadata().with_context(|| format!("cannot look at {shown}"))?;
    if !found.is_file() {
        bail!("{shown} is not an ordinary file: remove it for a new token");
    }
    if found.uid() != geteuid().as_raw() {
        bail!("{shown} belongs to somebody else, who knows the token in it: remove it for a new one");
    }
    if found.permissions().mode() & 0o077 != 0 {
        bail!(
            "others can read {shown}, and may know the token in it: remove it for a new one, or run `chmod 600 {shown}` if \
             nobody has read it"
        );
    }
    let mut token = String::new();
    file.take(LONGEST + 1).read_to_string(&mut token).with_context(|| format!("cannot read {shown}"))?;
    let token = token.trim();
    if token.is_empty() || token.len() as u64 > LONGEST {
        bail!("{shown} holds no token: remove it for a new one");
    }
    Ok(Some(token.to_owned()))
}

/// Writes a token to a new file, which is there with all of its content or not at all.
fn make(path: &Path, folder: &Path, token: &str) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    // Made with O_EXCL and mode 0600.
    let mut file = tempfile::NamedTempFile::with_prefix_in(".token-", folder).with_context(cannot)?;
    file.write_all(token.as_bytes()).and_then(|()| file.as_file().sync_all()).with_context(cannot)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error).with_context(cannot),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn token(path: &Path) -> Result<String> {
        read_or_make(path, || Ok("made".to_owned()))
    }

    /// What is said of a file that `plant` put there.
    fn check(plant: impl FnOnce(&Path), expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        plant(&path);
        let refused = token(&path).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }

    #[test]
    fn a_token_is_made_once_and_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert_eq!(token(&path).unwrap(), "made");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_or_make(&path, || bail!("there is one")).unwrap(), "made");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left there");
    }

    #[test]
    fn a_token_that_somebody_else_planted_or_can_read_is_refused() {
        // Whatever was in the file was the token, whoever had put it there.
        let write = |path: &Path| std::fs::write(path, "planted").unwrap();
        check(
            |path| {
                write(path);
                mode(path, 0o644);
            },
            "others can read",
        );
        check(
            |path| {
                let real = path.with_file_name("real");
                write(&real);
                mode(&real, 0o600);
                symlink(&real, path).unwrap();
            },
            "is a link",
        );
        check(|path| symlink("/nowhere", path).unwrap(), "is a link");
        check(|path| std::fs::create_dir(path).unwrap(), "not an ordinary file");
        check(
            |path| {
                write(path);
                mode(path, 0o600);
                std::fs::write(path, "").unwrap();
            },
            "holds no token",
        );
        check(
            |path| {
                std::fs::write(path, "x".repeat(usize::try_from(LONGEST).unwrap() + 1)).unwrap();
                mode(path, 0o600);
            },
            "holds no token",
        );
        for open in [0o777, 0o720, 0o702] {
            check(|path| mode(path.parent().unwrap(), open), "others may write to the folder");
        }
        if geteuid().is_root() {
            check(
                |path| std::os::unix::fs::chown(path.parent().unwrap(), Some(65534), None).unwrap(),
                "belongs to somebody else, who could replace",
            );
            check(
                |path| {
                    write(path);
                    mode(path, 0o600);
                    std::os::unix::fs::chown(path, Some(65534), None).unwrap();
                },
                "belongs to somebody else",
            );
        }
    }
}
