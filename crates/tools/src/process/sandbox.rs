//! The wall around a program: it sees, changes and reaches what a policy lists. Linux only.
//!
//! The supervisor starts an **init** in new namespaces. It makes the root that the policy describes, starts the program
//! under the remaining restrictions, stays until nothing of it runs any more, and tells the supervisor how things went.
//! With it dies everything in its process namespace. `docs/design/0009-sandbox.md` says what was chosen and what is not
//! covered.
//!
//! # Layout
//!
//! - `policy`: what a program may see, change and reach; [`SandboxPolicy`]
//! - `secrets`: what is not shown although something around it is
//! - `secret_places`: the same, for those who work outside of it
//! - `settings`: what a person chose, and the policy that it means for a project; [`SandboxSettings`]
//! - `toolchain`: tool chains and caches that are elsewhere than usual; [`ToolPlaces`]
//! - `repository`: the folders of git's that belong to a project
//! - `exact_path`: paths in JSON, byte for byte
//! - `put_aside_name`: the names of what was put aside
//! - `git_settings`: what settings of git's name
//! - `leads`: what is protected because something else leads to it
//! - `survey`: what of a project must be protected, as it is when a program starts
//! - `folder_index`: what is remembered of its folders
//! - `tracked`: what is hidden although git tracks it
//! - `overlap`: programs that run at the same time, in the same places
//! - `settled`: what counts as having been there when a program began
//! - `unsettled`: what programs that run may have made, for whoever records a project
//! - `report`: what the kernel offers; [`SandboxReport`], [`SandboxMachine`]
//! - `probe`: finding that out
//! - `enclosure`: the init, and the way of a program into the sandbox
//! - `identity`: accounts and rights
//! - `mounts`: the root, from what the policy lists
//! - `stage`: the root while it is being filled
//! - `protection`: what cannot be changed in a project that can be changed
//! - `spares`: the copies that it is mounted from
//! - `guard`: protected names that no mount can protect
//! - `own_content`: breaking the hard links of what is put aside
//! - `made_file`: files that tools made while programs run
//! - `lead_watch`: what takes the place of something that was led to
//! - `access`: getting into folders that a program has closed
//! - `aftermath`: what a program left at such names, at every depth
//! - `search`: looking through a project for it
//! - `new_repository`: a repository that a program made
//! - `rebase`: rebases and picks that stopped in the middle
//! - `watched`: places at which nothing may be made
//! - `tool_link`: links on the way to places of tools
//! - `likeness`: whether something new is a copy
//! - `moved_links`: whether a link that was moved leads to what it led to
//! - `hard_links`: other names of protected files
//! - `losses`: what a program wrote to folders that are gone with it
//! - `landlock`: the second wall around files
//! - `seccomp`: the filter of system calls
//! - `kernel`: system calls that have no safe interface elsewhere
//! - `fault`: why a sandbox could not be made

#[cfg(target_os = "linux")]
mod access;
#[cfg(target_os = "linux")]
pub(super) mod aftermath;
#[cfg(target_os = "linux")]
pub(super) mod enclosure;
mod exact_path;
#[cfg(target_os = "linux")]
mod fault;
#[cfg(target_os = "linux")]
mod folder_index;
mod git_settings;
#[cfg(target_os = "linux")]
pub(super) mod guard;
mod hard_links;
#[cfg(target_os = "linux")]
mod identity;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod lead_watch;
mod leads;
#[cfg(target_os = "linux")]
mod likeness;
#[cfg(target_os = "linux")]
mod losses;
#[cfg(target_os = "linux")]
pub(super) mod made_file;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod moved_links;
#[cfg(target_os = "linux")]
mod new_repository;
#[cfg(target_os = "linux")]
pub(super) mod overlap;
#[cfg(target_os = "linux")]
mod own_content;
mod policy;
#[cfg(target_os = "linux")]
pub(super) mod probe;
#[cfg(target_os = "linux")]
mod protection;
mod put_aside_name;
#[cfg(target_os = "linux")]
mod rebase;
pub(super) mod report;
mod repository;
#[cfg(target_os = "linux")]
mod search;
#[cfg(target_os = "linux")]
mod seccomp;
mod secret_places;
mod secrets;
mod settings;
#[cfg(target_os = "linux")]
pub(super) mod settled;
#[cfg(target_os = "linux")]
mod spares;
#[cfg(target_os = "linux")]
mod stage;
pub(super) mod survey;
#[cfg(target_os = "linux")]
mod tool_link;
mod toolchain;
mod tracked;
#[cfg(target_os = "linux")]
mod unsettled;
#[cfg(target_os = "linux")]
mod watched;

pub(crate) use leads::known_leads;
#[cfg(target_os = "linux")]
pub(crate) use overlap::note_made;
pub use policy::{SandboxMode, SandboxNetwork, SandboxPolicy};
pub(crate) use policy::{is_of_its_own, protected_home};
pub(crate) use put_aside_name::is_put_aside;
pub(crate) use report::DisplacedName;
#[cfg(test)]
pub(crate) use report::LostNames;
pub use report::{SandboxLevel, SandboxMachine, SandboxPart, SandboxReport};
pub(crate) use repository::repository_elsewhere;
pub(crate) use secret_places::SecretPlaces;
pub(crate) use secrets::hide_secrets;
pub use settings::SandboxSettings;
pub use toolchain::ToolPlaces;
#[cfg(target_os = "linux")]
pub(crate) use unsettled::{ProjectRecording, UnsettledPlaces, may_run, would_run};
