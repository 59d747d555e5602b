//! Forecasts: what a call that edits will make of its files, noted before it acts and compared with the disk afterwards.
//!
//! A tool that replaces whole files either did so or did not. The fingerprints of each file before and after let a
//! restart tell which, as long as nobody else has changed the files since.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use everturn_model::tool::FileForecast;
use everturn_tools::{Effect, Forecast, ForecastVerdict, Tool};

use super::{CallSurroundings, ToolCall};
use crate::Error;
use crate::background::unless_stopped;

/// What the files say about a call that edits and has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditVerdict {
    /// Every file is as the call was to leave it.
    Applied,
    /// Every file is as it was before.
    Untouched,
    /// Neither: it was cut off in between, or somebody else changed a file, or nothing was noted.
    Unknown,
}

/// What a call is going to make of which files. Nothing for tools that do not edit, and for an edit that will not apply.
pub(super) async fn of(
    tool: &Arc<dyn Tool>,
    setting: &CallSurroundings,
    call: &ToolCall,
) -> Result<Vec<FileForecast>, Error> {
    match tool.effect() {
        Effect::Edit => {}
        Effect::Pure | Effect::Repeatable | Effect::Opaque => return Ok(Vec::new()),
    }
    let (tool, input, scope) = (Arc::clone(tool), call.input.clone(), Arc::clone(&setting.scope));
    let found = unless_stopped(&setting.cancel, move || tool.forecast(&input, &scope)).await?;
    let Some(Ok(forecasts)) = found else { return Ok(Vec::new()) };
    // A path that is no text has no place in the log; without all of its files a call cannot be judged.
    let files = forecasts.into_iter().map(|Forecast { path, before, after }| {
        Some(FileForecast { path: path.to_str()?.to_owned(), before, after })
    });
    Ok(files.collect::<Option<Vec<_>>>().unwrap_or_default())
}

impl EditVerdict {
    /// Compares the files with what was noted. `others` are files that other calls of the turn have changed or were about
    /// to change: of those nobody can say who made them what they are.
    pub(crate) fn of(forecast: &[FileForecast], others: &BTreeSet<&str>) -> Self {
        if forecast.is_empty() || forecast.iter().any(|file| others.contains(file.path.as_str())) {
            return Self::Unknown;
        }
        let all = |wanted: ForecastVerdict| forecast.iter().all(|file| verdict(file) == wanted);
        if all(ForecastVerdict::Applied) {
            Self::Applied
        } else if all(ForecastVerdict::Untouched) {
            Self::Untouched
        } else {
            Self::Unknown
        }
    }
}

fn verdict(FileForecast { path, before, after }: &FileForecast) -> ForecastVerdict {
    Forecast { path: PathBuf::from(path), before: before.clone(), after: after.clone() }.verdict()
}
