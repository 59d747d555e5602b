//! The variables of this process, and those of them that nobody else may read.
//!
//! What a process was started with stays in `/proc/<pid>/environ`, whatever it unsets later, and every program of the same
//! account can read it there. So a command that may start programs takes the variables that hold secrets out of its
//! environment by starting itself again, in the same process, without them. Their values are handed over in a sealed file
//! in memory, which goes through a socket in place of standard input, together with the real one: so nothing is left open
//! that a program could inherit. From then on they are in the memory of this process only.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

#[cfg(target_os = "linux")]
pub(crate) use handover::{hide, receive};

/// Tells the second start that its standard input is the socket.
#[cfg(target_os = "linux")]
const HANDOVER: &str = "EVERTURN_HANDOVER";

/// What was handed over by the first start.
static KEPT: OnceLock<HashMap<OsString, OsString>> = OnceLock::new();

/// A variable of the environment, unless it is empty or not text.
pub(crate) fn variable(name: &str) -> Option<String> {
    let kept = KEPT.get().and_then(|kept| kept.get(OsStr::new(name)));
    let value = kept.cloned().or_else(|| std::env::var_os(name))?;
    value.into_string().ok().filter(|value| !value.is_empty())
}

/// The names of all variables, except those that are not text.
pub(crate) fn variable_names() -> impl Iterator<Item = String> {
    let kept = KEPT.get().into_iter().flat_map(HashMap::keys).cloned();
    kept.chain(std::env::vars_os().map(|(name, _)| name)).filter_map(|name| name.into_string().ok())
}

/// Without `/proc` nobody reads the environment of another process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn hide(_: &[String]) -> std::io::Result<()> {
    Ok(())
}

/// Without `/proc` nothing is handed over.
#[cfg(not(target_os = "linux"))]
pub(crate) fn receive() {}

#[cfg(target_os = "linux")]
mod handover {
    use std::fs::File;
    use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _, Write as _};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::process::CommandExt as _;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use rustix::net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    };

    use super::{HANDOVER, HashMap, KEPT, OsString};

    /// Takes what the first start handed over, and the real standard input. It must come before anything reads either.
    pub(crate) fn receive() {
        if std::env::var_os(HANDOVER).is_none() {
            return;
        }
        let kept = take().unwrap_or_default();
        KEPT.set(kept).ok();
    }

    fn take() -> io::Result<HashMap<OsString, OsString>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0u8];
        // Whoever set the variable without a socket there gets an error here, and nothing is changed.
        let input = rustix::stdio::stdin();
        recvmsg(input, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let mut received = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let mut files = received.next().into_iter().flatten();
        let (Some(real), Some(values)) = (files.next(), files.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        rustix::stdio::dup2_stdin(&real)?;
        let mut bytes = Vec::new();
        File::from(values).read_to_end(&mut bytes)?;
        let split = |pair: &[u8]| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            let (name, value) = pair.split_at(at);
            Some((OsString::from_vec(name.to_vec()), OsString::from_vec(value.get(1..)?.to_vec())))
        };
        Ok(bytes.split(|byte| *byte == 0).filter_map(split).collect())
    }

    /// Starts this process again without these variables. It returns if there is none of them, or if that failed.
    pub(crate) fn hide(names: &[String]) -> io::Result<()> {
        // Once is enough, whatever is in the environment then.
        if std::env::var_os(HANDOVER).is_some() {
            return Ok(());
        }
        let secret: Vec<(OsString, OsString)> = std::env::vars_os()
            .filter(|(name, _)| names.iter().any(|secret| name == secret.as_str()))
            .collect();
        if secret.is_empty() {
            return Ok(());
        }
        let socket = hand_over(&secret)?;
        let mut arguments = std::env::args_os();
        let mut command = Command::new(program());
        command.arg0(arguments.next().unwrap_or_default()).args(arguments);
        for (name, _) in &secret {
            command.env_remove(name);
        }
        Err(command.env(HANDOVER, "1").stdin(Stdio::from(socket)).exec())
    }

    /// A socket from which the standard input and the values can be received.
    fn hand_over(secret: &[(OsString, OsString)]) -> io::Result<OwnedFd> {
        let mut values = File::from(memfd_create("keys", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        for (name, value) in secret {
            values.write_all(&[name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat())?;
        }
        values.rewind()?;
        fcntl_add_seals(&values, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let files = [rustix::stdio::stdin(), values.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(&ours, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
        Ok(theirs)
    }

    /// This very binary, by a path that people recognise in a list of processes, if it is still there.
    fn program() -> PathBuf {
        let running = Path::new("/proc/self/exe");
        let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
        let named = std::env::current_exe().ok().filter(|path| identity(path) == identity(running));
        named.unwrap_or_else(|| running.to_owned())
    }
}
