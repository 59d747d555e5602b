//! Commands that the person runs in a session.
//!
//! They are the person's own, as if typed into a terminal: no sandbox stands around them, nobody is asked, and they have no
//! time limit. Like every other program that is started here they have no input, do not see what holds keys, and end with
//! everything that they started.

use super::running::RunningCommand;
use super::{BashTool, COMMAND_MAX, CommandEnding, SCRIPT};
use crate::process::Exit;
use crate::tool::{Context, Failure};

/// How a person's command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonCommandEnd {
    /// What it printed, within the limits.
    pub output: String,
    /// Its exit status; none when it was stopped.
    pub exit: Option<i32>,
    /// Whether it was stopped because the context was cancelled.
    pub stopped: bool,
}

/// Whether the system takes a command as it is.
///
/// # Errors
/// When it holds a NUL or is too long.
pub fn check_command(command: &str) -> Result<(), Failure> {
    if command.contains('\0') {
        return Err(Failure::InvalidInput(format!(
            "The command holds a NUL, which no command can: {SCRIPT}"
        )));
    }
    if command.len() > COMMAND_MAX {
        return Err(Failure::InvalidInput(format!(
            "The command has {} bytes, and the system takes {COMMAND_MAX} at most: {SCRIPT}",
            command.len()
        )));
    }
    Ok(())
}

impl BashTool {
    /// Runs a command of the person in the folder of the context, and reports what it prints while it prints.
    ///
    /// # Errors
    /// When it cannot be started. It has done nothing then.
    pub async fn run_for_person(&self, command: &str, context: Context) -> Result<PersonCommandEnd, Failure> {
        check_command(command)?;
        let folder = context.scope.directory.clone();
        let (program, reader) = self.start(command, &folder, None).await?;
        let mut running = RunningCommand::new(program, reader, context);
        let ending = running.follow(None).await;
        let gone = running.settle(self.drain).await;
        let mut output = running.finish(self.limits).await.bounded.text;
        let mut add = |note: &str| {
            let text = output.trim_end_matches('\n').len();
            output.truncate(text);
            output.push_str(if output.is_empty() { "" } else { "\n\n" });
            output.push_str(note);
        };
        match ending {
            CommandEnding::Exited(Exit::Lost) => {
                add("(The command was stopped: the process that watched over it was killed.)");
            }
            CommandEnding::Exited(_) if gone.stopped => {
                add("(Programs that the command left running were stopped.)");
            }
            CommandEnding::Exited(_) | CommandEnding::TimedOut | CommandEnding::Cancelled => {}
        }
        if gone.left > 0 {
            add(&format!("({} of its processes could not be stopped.)", gone.left));
        }
        let exit = match ending {
            CommandEnding::Exited(exit) => exit.code(),
            CommandEnding::TimedOut | CommandEnding::Cancelled => None,
        };
        Ok(PersonCommandEnd { output, exit, stopped: matches!(ending, CommandEnding::Cancelled) })
    }
}
