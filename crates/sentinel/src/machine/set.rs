//! SENTINEL SET: its users' settings of one primary.
//!
//! Invariant: options are applied in order until one is wrong; earlier ones are saved, as in Redis.

use martlet_base::number::parse_i64;

use super::Sentinel;
use super::configure::canonical;
use crate::events::Level;
use crate::instance::{InstanceId, PrimarySettings};
use crate::limits::WORD_MAX_BYTES;

/// Why an option is refused, in Redis' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// An invalid value: it, and the option.
    #[error("ERR Invalid argument '{0}' for SENTINEL SET '{1}'")]
    Invalid(String, String),
    /// There is no such option, or its value is missing.
    #[error("ERR Unknown option or number of arguments for SENTINEL SET '{0}'")]
    Unknown(String),
    /// Scripts may not be changed.
    #[error(
        "ERR Reconfiguration of scripts path is denied for security reasons. Check the deny-scripts-reconfig configuration directive in your Sentinel configuration"
    )]
    ScriptsDenied,
    /// It cannot be run.
    #[error("ERR {0} script seems non existing or non executable")]
    NoScript(&'static str),
    /// The configuration file could not be written.
    #[error("ERR Failed to save config file. Check server logs.")]
    NotSaved,
}

/// Takes a value for an option.
type Apply = fn(&mut Sentinel, InstanceId, &Words<'_>) -> Result<(), SetError>;

/// An option.
struct SetOption {
    name: &'static str,
    values: usize,
    is_secret: bool,
    apply: Apply,
}

/// An option and its values as they came.
struct Words<'a> {
    option: &'a [u8],
    values: &'a [Vec<u8>],
}

impl Words<'_> {
    fn value(&self) -> &[u8] {
        self.values.first().map_or(&[], Vec::as_slice)
    }

    fn invalid(&self, value: &[u8]) -> SetError {
        SetError::Invalid(text(value), text(self.option))
    }

    fn number(&self, least: i64, most: i64) -> Result<i64, SetError> {
        let value = self.value();
        let number = parse_i64(value).filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.invalid(value))
    }

    /// Empty for none; a text that a line of the file could not hold is refused.
    fn secret(&self) -> Result<Option<Vec<u8>>, SetError> {
        let value = self.value();
        if value.len() > WORD_MAX_BYTES {
            return Err(self.invalid(b""));
        }
        Ok(Some(value.to_vec()).filter(|value| !value.is_empty()))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const fn option(name: &'static str, apply: Apply) -> SetOption {
    SetOption { name, values: 1, is_secret: false, apply }
}

static OPTIONS: [SetOption; 10] = [
    option("down-after-milliseconds", |sentinel, id, words| {
        let period_ms = words.number(1, i64::from(i32::MAX))?;
        sentinel.set_down_after(id, period_ms);
        Ok(())
    }),
    option("failover-timeout", |sentinel, id, words| {
        sentinel.of(id).failover_timeout_ms = words.number(1, i64::from(i32::MAX))?;
        Ok(())
    }),
    option("parallel-syncs", |sentinel, id, words| {
        sentinel.of(id).parallel_syncs = words.number(1, i64::from(i32::MAX))?;
        Ok(())
    }),
    option("quorum", |sentinel, id, words| {
        sentinel.of(id).quorum = words.number(1, i64::from(i32::MAX))? as u32;
        Ok(())
    }),
    option("master-reboot-down-after-period", |sentinel, id, words| {
        sentinel.of(id).reboot_down_after_ms = words.number(0, i64::from(i32::MAX))?;
        Ok(())
    }),
    option("notification-script", |sentinel, id, words| {
        sentinel.of(id).notification_script = sentinel.script(words, "Notification")?;
        Ok(())
    }),
    option("client-reconfig-script", |sentinel, id, words| {
        sentinel.of(id).client_reconfig_script = sentinel.script(words, "Client reconfiguration")?;
        Ok(())
    }),
    SetOption {
        is_secret: true,
        ..option("auth-pass", |sentinel, id, words| {
            sentinel.of(id).auth_pass = words.secret()?;
            sentinel.drop_links_of(id);
            Ok(())
        })
    },
    option("auth-user", |sentinel, id, words| {
        sentinel.of(id).auth_user = words.secret()?;
        sentinel.drop_links_of(id);
        Ok(())
    }),
    SetOption {
        values: 2,
        ..option("rename-command", |sentinel, id, words| {
            let [old, new] = words.values else { return Ok(()) };
            if let Some(bad) = [old, new].into_iter().find(|word| !is_command(word)) {
                return Err(words.invalid(bad));
            }
            let (old, new) = (text(old).to_ascii_uppercase(), text(new));
            let renamed = &mut sentinel.of(id).renamed_commands;
            if old.eq_ignore_ascii_case(&new) {
                renamed.remove(&old);
            } else {
                renamed.insert(old, new);
            }
            Ok(())
        })
    },
];

fn is_command(word: &[u8]) -> bool {
    !word.is_empty() && word.len() <= WORD_MAX_BYTES && word.iter().all(u8::is_ascii_graphic)
}

impl Sentinel {
    fn of(&mut self, id: InstanceId) -> &mut PrimarySettings {
        &mut self.get_mut(id).settings
    }

    /// Sets `down-after-milliseconds` of a primary and of all that belongs to it.
    pub(super) fn set_down_after(&mut self, id: InstanceId, period_ms: i64) {
        let all = [vec![id], self.replicas_of(id), self.sentinels_of(id)].concat();
        all.into_iter().for_each(|one| self.get_mut(one).down_after_ms = period_ms);
    }

    fn script(&self, words: &Words<'_>, what: &'static str) -> Result<Option<String>, SetError> {
        if self.settings.deny_scripts_reconfig {
            return Err(SetError::ScriptsDenied);
        }
        let path = text(words.value());
        if !path.is_empty() && !self.world.is_executable(&path) {
            return Err(SetError::NoScript(what));
        }
        Ok(Some(path).filter(|path| !path.is_empty()))
    }

    /// Sets options of a primary: each a name and its values.
    pub fn set(&mut self, now_ms: i64, id: InstanceId, words: &[Vec<u8>]) -> Result<(), SetError> {
        self.now_ms = now_ms;
        let mut rest = words;
        let mut has_changed = false;
        let result = loop {
            let Some((name, after)) = rest.split_first() else { break Ok(()) };
            let called = canonical(name);
            let known = OPTIONS.iter().find(|known| called.eq_ignore_ascii_case(known.name.as_bytes()));
            let Some((known, (values, after))) =
                known.and_then(|known| Some((known, after.split_at_checked(known.values)?)))
            else {
                break Err(SetError::Unknown(text(name)));
            };
            if let Err(error) = (known.apply)(self, id, &Words { option: name, values }) {
                break Err(error);
            }
            has_changed = true;
            self.tell_set(id, name, values, known.is_secret);
            rest = after;
        };
        let is_saved = !has_changed || self.save();
        result?;
        if is_saved { Ok(()) } else { Err(SetError::NotSaved) }
    }

    fn tell_set(&mut self, id: InstanceId, name: &[u8], values: &[Vec<u8>], is_secret: bool) {
        let shown = values.iter().map(|value| if is_secret { "******".into() } else { text(value) });
        let words: Vec<String> = std::iter::once(text(name)).chain(shown).collect();
        self.event(Level::Warning, "+set", id, &format!(" {}", words.join(" ")));
    }
}
