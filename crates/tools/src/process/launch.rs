//! Starting a program under a supervisor, or in a process group where there is none.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pty_process::{Command as TerminalCommand, Pts};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::control::{ControlSocket, RunOrder, SupervisorOrder, give};
use super::environment::{MARK, Secrets, hidden};
use super::group::ProcessGroup;
#[cfg(target_os = "linux")]
use super::program::start_known;
use super::program::{Containment, MovedPlace, RunningProgram};
use super::sandbox::SandboxPolicy;
#[cfg(target_os = "linux")]
use super::sandbox::made_file::MadeRecord;
#[cfg(target_os = "linux")]
use super::sandbox::overlap;
#[cfg(target_os = "linux")]
use super::sandbox::settled::SurveyedProjects;
use super::supervisor;

/// How programs are started and stopped.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The binary that can be a supervisor: `everturn` itself.
    pub supervisor: Option<PathBuf>,
    /// Environment variables that programs must not see, besides our own.
    pub secrets: Secrets,
    /// How long processes may take to stop by themselves before they are killed.
    pub grace: Duration,
    /// How long processes that a program leaves behind may take to end before they are asked to.
    pub linger: Duration,
    /// What programs may see, change and reach, if not everything. It takes a supervisor.
    pub sandbox: Option<SandboxPolicy>,
}

impl Default for Launcher {
    fn default() -> Self {
        Self {
            supervisor: None,
            secrets: Secrets::default(),
            grace: Duration::from_secs(3),
            linger: Duration::from_millis(100),
            sandbox: None,
        }
    }
}

/// A program to start.
#[derive(Debug)]
pub(crate) struct ProgramStart<'a> {
    /// Its name, looked up in `PATH`, or its path.
    pub(crate) program: &'a str,
    pub(crate) args: &'a [String],
    /// Where it runs.
    pub(crate) folder: &'a Path,
    /// Variables that it gets besides ours.
    pub(crate) env: &'a [(String, String)],
}

/// Where a program's output goes, and where its input comes from.
pub(crate) enum ProgramStreams {
    /// Both streams to one pipe; there is no input.
    Pipe(OwnedFd),
    /// Each stream has a pipe of its own, for a program that is spoken to.
    Streams { input: OwnedFd, output: OwnedFd, log: OwnedFd },
    /// To a terminal, which is also its input.
    Terminal(Pts),
}

impl ProgramStreams {
    /// The same for another attempt; there is none for a terminal.
    fn try_clone(&self) -> io::Result<Option<Self>> {
        Ok(match self {
            Self::Pipe(writer) => Some(Self::Pipe(writer.try_clone()?)),
            Self::Streams { input, output, log } => Some(Self::Streams {
                input: input.try_clone()?,
                output: output.try_clone()?,
                log: log.try_clone()?,
            }),
            Self::Terminal(_) => None,
        })
    }
}

/// How often a start is tried again when something was moved meanwhile.
const ATTEMPTS: usize = 5;

impl Launcher {
    /// Starts a program and returns when it runs.
    pub(crate) async fn start(
        &self,
        start: &ProgramStart<'_>,
        outlet: ProgramStreams,
    ) -> io::Result<RunningProgram> {
        for _ in 0..ATTEMPTS {
            let Some(same) = outlet.try_clone()? else { break };
            match self.try_start(start, same).await {
                Err(error) if error.get_ref().is_some_and(|inner| inner.is::<MovedPlace>()) => {}
                other => return other,
            }
        }
        self.try_start(start, outlet).await
    }

    /// Looks at the projects as they are now, and starts a program in them.
    async fn try_start(
        &self,
        start: &ProgramStart<'_>,
        outlet: ProgramStreams,
    ) -> io::Result<RunningProgram> {
        if self.sandbox.is_some() && (self.supervisor.is_none() || !cfg!(target_os = "linux")) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "there is no sandbox here: it takes Linux and the program that watches over commands",
            ));
        }
        let mark = mark();
        let supervisor = self.supervisor.as_ref().filter(|_| cfg!(target_os = "linux"));
        let mut sockets = None;
        #[cfg(target_os = "linux")]
        let mut record = None;
        let mut command = match supervisor {
            Some(supervisor) => {
                // If it is killed, what it watched over comes to us and not to the system, so that it is still known.
                #[cfg(target_os = "linux")]
                rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
                let (ours, theirs) = StdUnixStream::pair()?;
                let input = match &outlet {
                    ProgramStreams::Streams { input, .. } => Some(input.as_fd()),
                    ProgramStreams::Pipe(_) | ProgramStreams::Terminal(_) => None,
                };
                give(&ours, input)?;
                #[cfg(target_os = "linux")]
                {
                    let made = MadeRecord::new()?;
                    give(&ours, Some(made.share()?.as_fd()))?;
                    record = Some(made);
                }
                ours.set_nonblocking(true)?;
                sockets = Some((UnixStream::from_std(ours)?, OwnedFd::from(theirs)));
                let mut command = Command::new(supervisor);
                command.arg0(supervisor::NAME).arg(supervisor::ARGUMENT);
                command
            }
            None => {
                let mut command = Command::new(start.program);
                command.args(start.args);
                command
            }
        };
        let (ours, theirs) = sockets.unzip();
        for name in hidden(&self.secrets.names()) {
            command.env_remove(name);
        }
        command.envs(start.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(start.folder).env(MARK, &mark);
        let terminal = matches!(outlet, ProgramStreams::Terminal(_));
        let start_it = move || match outlet {
            ProgramStreams::Pipe(writer) => spawn(command, theirs, None, writer.try_clone()?, writer),
            ProgramStreams::Streams { input, output, log } => {
                spawn(command, theirs, Some(input), output, log)
            }
            ProgramStreams::Terminal(pts) => {
                let mut command = TerminalCommand::from(command);
                if let Some(theirs) = theirs {
                    command = command.stdin(theirs);
                }
                command.spawn(pts).map_err(|error| match error {
                    pty_process::Error::Io(error) => error,
                    other => io::Error::other(other.to_string()),
                })
            }
        };
        #[cfg(target_os = "linux")]
        let child = start_known(terminal, start_it)?;
        #[cfg(not(target_os = "linux"))]
        let child = start_it()?;
        let hold = match ours {
            Some(socket) => Containment::Supervisor(ControlSocket::new(socket)),
            None => Containment::Group(ProcessGroup::of(&child)),
        };
        let mut program = RunningProgram::new(child, hold, mark, self);
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let run = RunOrder {
            program: start.program.to_owned(),
            args: start.args.to_vec(),
            grace: milliseconds(self.grace),
            linger: milliseconds(self.linger),
            terminal,
            sandbox: self.sandbox.clone(),
            // While the supervisor starts, which takes longer.
            #[cfg(target_os = "linux")]
            projects: self.look_at_projects(&mut program, record).await?,
        };
        program.begin(&SupervisorOrder::Run(Box::new(run))).await?;
        Ok(program)
    }

    /// The projects that a sandbox must protect, as they are now. From here on the program counts as one that runs there.
    #[cfg(target_os = "linux")]
    async fn look_at_projects(
        &self,
        program: &mut RunningProgram,
        record: Option<MadeRecord>,
    ) -> io::Result<SurveyedProjects> {
        let policy = self.sandbox.clone().filter(|policy| !policy.projects.is_empty());
        let Some(((policy, supervisor), record)) = policy.zip(program.pid()).zip(record) else {
            return Ok(SurveyedProjects::default());
        };
        let entering = tokio::task::spawn_blocking(move || overlap::enter(&policy, supervisor, record));
        let (projects, entry) = entering.await.map_err(io::Error::other)??;
        program.enter(entry);
        Ok(projects)
    }
}

/// Starts a supervisor, which has been given the program's input, or the program itself.
///
/// The command holds ends of the pipes; it is gone before the first read, or the end of the output would never show.
fn spawn(
    mut command: Command,
    supervisor: Option<OwnedFd>,
    input: Option<OwnedFd>,
    output: OwnedFd,
    log: OwnedFd,
) -> io::Result<Child> {
    match (supervisor, input) {
        (Some(socket), _) => command.stdin(socket),
        (None, Some(input)) => command.stdin(input).process_group(0),
        (None, None) => command.stdin(Stdio::null()).process_group(0),
    };
    command.stdout(output).stderr(log).spawn()
}

/// A name for one call that no other has.
fn mark() -> String {
    let random = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", random(), random())
}
