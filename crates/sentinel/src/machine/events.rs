//! Events: to the log, to clients that subscribed, to the notification script.
//!
//! Invariant: names and texts are Redis' to the letter, since clients and scripts match on them.

use super::{Output, Sentinel};
use crate::events::Level;
use crate::instance::{InstanceId, Role};

impl Sentinel {
    /// An event of an instance: its kind, the instance, and `rest` behind that.
    pub(super) fn event(&mut self, level: Level, name: &str, id: InstanceId, rest: &str) {
        let message = format!("{}{rest}", self.described(id));
        self.text_event(level, name, id, &message);
    }

    /// `<type> <name> <ip> <port>`, and the same of the primary behind an `@`.
    fn described(&self, id: InstanceId) -> String {
        let one = |id: InstanceId| {
            let instance = self.get(id);
            format!("{} {} {}", instance.name, self.announced(&instance.address), instance.address.port)
        };
        let instance = self.get(id);
        let own = format!("{} {}", instance.role.word(), one(id));
        match instance.primary {
            Some(primary) if instance.role != Role::Primary => format!("{own} @ {}", one(primary)),
            _ => own,
        }
    }

    /// An event of an instance with a given text.
    pub(super) fn text_event(&mut self, level: Level, name: &str, id: InstanceId, message: &str) {
        self.global_event(level, name, message);
        if level == Level::Warning
            && let Some(script) = self.get(self.primary_of(id)).settings.notification_script.clone()
        {
            self.schedule_script(vec![script, name.into(), message.into()]);
        }
    }

    /// An event of no instance.
    pub(super) fn global_event(&mut self, level: Level, name: &str, message: &str) {
        self.log(level, format!("{name} {message}"));
        if level != Level::Debug {
            self.output(Output::Publish { channel: name.into(), message: message.into() });
        }
    }

    pub(super) fn log(&mut self, level: Level, text: String) {
        if level >= self.settings.log_level {
            self.output(Output::Log(level, text));
        }
    }
}
