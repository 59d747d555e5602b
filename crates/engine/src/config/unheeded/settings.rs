//! Settings whose values have a form of their own.

use serde_json::Value;

use super::super::budget::Budgets;
use super::super::caution::names_in;
use super::super::compaction_settings::CompactionSettings;
use super::super::sandbox_choice::SandboxWish;
use super::super::trash_lifetime;
use super::super::turn_limits::TurnLimits;
use super::{ASKED, UnheededSearch};

impl UnheededSearch<'_> {
    pub(super) fn look_at_sandbox(&mut self, value: &Value) {
        for mistake in SandboxWish::read(Some(value), self.context.home).1 {
            let path: Vec<&str> = ["sandbox"].into_iter().chain(mistake.key.as_deref()).collect();
            let Some(meant) = mistake.meant else {
                self.note(&path, mistake.what);
                continue;
            };
            self.note(&path, format!("{}{ASKED}", mistake.what));
            self.be_careful(names_in(&meant));
        }
    }

    pub(super) fn look_at_budget(&mut self, value: &Value) {
        let wrong = Budgets::read(Some(value)).1;
        wrong.iter().for_each(|wrong| self.note(&wrong.keys(), wrong.what.clone()));
    }

    pub(super) fn look_at_limits(&mut self, value: &Value) {
        for mistake in TurnLimits::read(value).1 {
            let path: Vec<&str> = ["limits"].into_iter().chain(mistake.key).collect();
            self.note(&path, mistake.what);
        }
        self.look_for_rules(&["limits"], value);
    }

    pub(super) fn look_at_compaction(&mut self, value: &Value) {
        for (key, what) in CompactionSettings::read(value).1 {
            let path: Vec<&str> = ["compaction"].into_iter().chain(key).collect();
            self.note(&path, what);
        }
    }

    pub(super) fn look_at_trash(&mut self, value: &Value) {
        let mistake = trash_lifetime::mistake(value);
        mistake.into_iter().for_each(|what| self.note(&["trash", "keep"], what));
    }
}
