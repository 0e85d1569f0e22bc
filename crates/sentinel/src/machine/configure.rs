//! The `sentinel` directives of a configuration file: read at start, written whenever something changes.
//!
//! Invariant: the written directives read back as the same state.

use martlet_protocol::quote::append_quoted;

use super::Sentinel;
use super::hello::leading_number;
use crate::config::rewrite::Line;
use crate::events::Level;
use crate::instance::{InstanceId, Role};

/// Digits of an id.
const ID_BYTES: usize = 40;

/// When a directive is applied, whatever its place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Before primaries are made.
    Global,
    /// Makes a primary.
    Monitor,
    /// About a primary that is there.
    Primary,
}

/// What applies a directive: its arguments as text and as bytes.
type Apply = fn(&mut Sentinel, &[String], &[Vec<u8>]) -> Result<(), String>;

struct Directive {
    name: &'static str,
    phase: Phase,
    /// Arguments behind the name.
    arguments: std::ops::RangeInclusive<usize>,
    apply: Apply,
}

const fn global(name: &'static str, apply: Apply) -> Directive {
    Directive { name, phase: Phase::Global, arguments: 1..=1, apply }
}

const fn of_primary(name: &'static str, arguments: usize, apply: Apply) -> Directive {
    Directive { name, phase: Phase::Primary, arguments: arguments..=arguments, apply }
}

const NEGATIVE: &str = "negative or zero time parameter.";

static DIRECTIVES: &[Directive] = &[
    global("myid", |sentinel, words, _| {
        if words[0].len() != ID_BYTES || !words[0].is_ascii() {
            return Err("Malformed Sentinel id in myid option.".into());
        }
        sentinel.id = words[0].clone();
        Ok(())
    }),
    global("current-epoch", |sentinel, words, _| {
        sentinel.current_epoch = sentinel.current_epoch.max(epoch(&words[0]));
        Ok(())
    }),
    global("announce-ip", |sentinel, words, _| {
        sentinel.settings.announce_ip = Some(words[0].clone()).filter(|ip| !ip.is_empty());
        Ok(())
    }),
    global("announce-port", |sentinel, words, _| {
        sentinel.settings.announce_port = words[0].parse().map_err(|_| "Invalid port number.".to_owned())?;
        Ok(())
    }),
    global("deny-scripts-reconfig", |sentinel, words, _| {
        let message = "Please specify yes or no for the deny-scripts-reconfig options.";
        sentinel.settings.deny_scripts_reconfig = yes_or_no(&words[0]).ok_or(message)?;
        Ok(())
    }),
    global("resolve-hostnames", |sentinel, words, _| {
        let message = "Please specify yes or no for the resolve-hostnames option.";
        sentinel.settings.resolve_hostnames = yes_or_no(&words[0]).ok_or(message)?;
        Ok(())
    }),
    global("announce-hostnames", |sentinel, words, _| {
        let message = "Please specify yes or no for the announce-hostnames option.";
        sentinel.settings.announce_hostnames = yes_or_no(&words[0]).ok_or(message)?;
        Ok(())
    }),
    global("sentinel-user", |sentinel, _, bytes| {
        sentinel.settings.sentinel_user = Some(bytes[0].clone()).filter(|user| !user.is_empty());
        Ok(())
    }),
    global("sentinel-pass", |sentinel, _, bytes| {
        sentinel.settings.sentinel_pass = Some(bytes[0].clone()).filter(|pass| !pass.is_empty());
        Ok(())
    }),
    Directive {
        name: "monitor",
        phase: Phase::Monitor,
        arguments: 4..=4,
        apply: |sentinel, words, _| {
            let quorum = leading_number(&words[3]);
            let quorum = u32::try_from(quorum).ok().filter(|quorum| *quorum > 0);
            let quorum = quorum.ok_or("Quorum must be 1 or greater.")?;
            let made = sentinel.create_primary(&words[0], &words[1], leading_number(&words[2]), quorum);
            made.map(|_| ()).map_err(|error| error.to_string())
        },
    },
    of_primary("down-after-milliseconds", 2, |sentinel, words, _| {
        let id = sentinel.configured(&words[0])?;
        sentinel.set_down_after(id, positive(&words[1])?);
        Ok(())
    }),
    of_primary("failover-timeout", 2, |sentinel, words, _| {
        let id = sentinel.configured(&words[0])?;
        sentinel.get_mut(id).settings.failover_timeout_ms = positive(&words[1])?;
        Ok(())
    }),
    of_primary("parallel-syncs", 2, |sentinel, words, _| {
        let id = sentinel.configured(&words[0])?;
        sentinel.get_mut(id).settings.parallel_syncs = leading_number(&words[1]);
        Ok(())
    }),
    of_primary("notification-script", 2, |sentinel, words, _| {
        let id = sentinel.configured(&words[0])?;
        if !sentinel.world.is_executable(&words[1]) {
            return Err("Notification script seems non existing or non executable.".into());
        }
        sentinel.get_mut(id).settings.notification_script = Some(words[1].clone());
        Ok(())
    }),
    of_primary("client-reconfig-script", 2, |sentinel, words, _| {
        let id = sentinel.configured(&words[0])?;
        if !sentinel.world.is_executable(&words[1]) {
            return Err("Client reconfiguration script seems non existing or non executable.".into());
        }
        sentinel.get_mut(id).settings.client_reconfig_script = Some(words[1].clone());
        Ok(())
    }),
    of_primary("auth-pass", 2, |sentinel, words, bytes| {
        let id = sentinel.configured(&words[0])?;
        sentinel.get_mut(id).settings.auth_pass = Some(bytes[1].clone());
        Ok(())
    }),
    of_primary("auth-user", 2, |sentinel, words, bytes| {
        let id = sentinel.configured(&words[0])?;
        sentinel.get_mut(id).settings.auth_user = Some(bytes[1].clone());
        Ok(())
    }),
    of_primary("config-epoch", 2, |sentinel, words, _| {
        let id = sentinel.configured(&words[0])?;
        let epoch = epoch(&words[1]);
        sentinel.get_mut(id).config_epoch = epoch;
        sentinel.current_epoch = sentinel.current_epoch.max(epoch);
        Ok(())
    }),
    of_primary("leader-epoch", 2, |sentinel, words, _| {
        let id = sentinel.configured(&words[0])?;
        sentinel.get_mut(id).vote.epoch = epoch(&words[1]);
        Ok(())
    }),
    of_primary("known-replica", 3, known_replica),
    of_primary("known-slave", 3, known_replica),
    Directive {
        name: "known-sentinel",
        phase: Phase::Primary,
        arguments: 3..=4,
        apply: |sentinel, words, _| {
            // An old form has no id, and says nothing.
            let [name, host, port, sentinel_id] = words else { return Ok(()) };
            let id = sentinel.configured(name)?;
            let made = sentinel.create_sentinel(id, sentinel_id, host, leading_number(port));
            made.map(|_| ()).map_err(|error| error.to_string())
        },
    },
    of_primary("rename-command", 3, |sentinel, words, _| {
        let id = sentinel.configured(&words[0])?;
        let renamed = &mut sentinel.get_mut(id).settings.renamed_commands;
        match renamed.insert(words[1].to_ascii_uppercase(), words[2].clone()) {
            None => Ok(()),
            Some(_) => Err("Same command renamed multiple times with rename-command.".into()),
        }
    }),
    of_primary("master-reboot-down-after-period", 2, |sentinel, words, _| {
        let id = sentinel.configured(&words[0])?;
        let period_ms = leading_number(&words[1]);
        if period_ms < 0 {
            return Err("negative time parameter.".into());
        }
        sentinel.get_mut(id).settings.reboot_down_after_ms = period_ms;
        Ok(())
    }),
];

/// The name by which the tables know an option: Valkey has another for one of Redis'.
pub(super) fn canonical(name: &[u8]) -> &[u8] {
    const OF_VALKEY: &[u8] = b"primary-reboot-down-after-period";
    if name.eq_ignore_ascii_case(OF_VALKEY) { b"master-reboot-down-after-period" } else { name }
}

fn known_replica(sentinel: &mut Sentinel, words: &[String], _: &[Vec<u8>]) -> Result<(), String> {
    let id = sentinel.configured(&words[0])?;
    let made = sentinel.create_replica(id, &words[1], leading_number(&words[2]));
    made.map(|_| ()).map_err(|error| error.to_string())
}

fn epoch(text: &str) -> u64 {
    leading_number(text).max(0) as u64
}

fn positive(text: &str) -> Result<i64, String> {
    Some(leading_number(text)).filter(|ms| *ms > 0).ok_or_else(|| NEGATIVE.into())
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

impl Sentinel {
    fn configured(&self, name: &str) -> Result<InstanceId, String> {
        self.primary(name).map(|(id, _)| id).ok_or_else(|| "No such master with specified name.".into())
    }

    /// Applies all `sentinel` directives: the words behind `sentinel`, in the order of the file.
    ///
    /// # Errors
    /// The place of the first that is wrong, and why.
    pub fn configure(&mut self, directives: &[Vec<Vec<u8>>]) -> Result<(), (usize, String)> {
        const UNKNOWN: &str = "Unrecognized sentinel configuration statement.";
        let mut ordered = Vec::new();
        for (place, words) in directives.iter().enumerate() {
            let Some((name, arguments)) = words.split_first() else { return Err((place, UNKNOWN.into())) };
            let called = canonical(name);
            let known = DIRECTIVES.iter().find(|known| {
                called.eq_ignore_ascii_case(known.name.as_bytes())
                    && known.arguments.contains(&arguments.len())
            });
            ordered.push((known.ok_or((place, UNKNOWN.to_owned()))?, place, arguments));
        }
        ordered.sort_by_key(|(known, place, _)| (known.phase, *place));
        for (known, place, arguments) in ordered {
            let text = arguments.iter().map(|word| String::from_utf8_lossy(word).into_owned());
            (known.apply)(self, &text.collect::<Vec<_>>(), arguments).map_err(|error| (place, error))?;
        }
        Ok(())
    }

    /// Saves the configuration; returns whether that worked. A failure is in the log, and the Sentinel
    /// continues.
    pub(super) fn save(&mut self) -> bool {
        let lines = self.config_lines();
        match self.world.save(&lines) {
            Ok(()) => {
                self.log(Level::Notice, "Sentinel new configuration saved on disk".into());
                true
            }
            Err(error) => {
                let why = martlet_base::disk::error_text(&error);
                let text =
                    format!("WARNING: Sentinel was not able to save the new configuration on disk!!!: {why}");
                self.log(Level::Warning, text);
                false
            }
        }
    }

    /// All directives that say what this Sentinel is and knows.
    pub fn config_lines(&self) -> Vec<Line> {
        let mut lines = Lines(Vec::new());
        let settings = &self.settings;
        lines.word("myid", &self.id);
        lines.flag("deny-scripts-reconfig", settings.deny_scripts_reconfig, true);
        lines.flag("resolve-hostnames", settings.resolve_hostnames, false);
        lines.flag("announce-hostnames", settings.announce_hostnames, false);
        for id in self.primary_ids() {
            self.primary_lines(id, &mut lines);
        }
        lines.word("current-epoch", &self.current_epoch.to_string());
        lines.optional("announce-ip", settings.announce_ip.as_deref().map(str::as_bytes));
        let port = settings.announce_port.to_string();
        lines.optional("announce-port", (settings.announce_port != 0).then_some(port.as_bytes()));
        lines.optional("sentinel-user", settings.sentinel_user.as_deref());
        lines.optional("sentinel-pass", settings.sentinel_pass.as_deref());
        // Older lines of directives that are not written any more are removed.
        for known in DIRECTIVES.iter().filter(|known| known.phase != Phase::Global) {
            lines.remove(known.name);
        }
        lines.0.push(Line {
            option: "loglevel".into(),
            text: Some(format!("loglevel {}", settings.log_level.word()).into_bytes()),
            is_default: settings.log_level == Level::Notice,
        });
        lines.0
    }

    fn primary_lines(&self, id: InstanceId, lines: &mut Lines) {
        let primary = self.get(id);
        let (name, settings) = (primary.name.as_bytes(), &primary.settings);
        let address = self.current_address(id);
        let mut line = |option: &'static str, words: &[&[u8]]| {
            lines.of_primary(option, name, words);
        };
        let host = |address| self.announced(address).as_bytes();
        let (port, quorum) = (address.port.to_string(), settings.quorum.to_string());
        line("monitor", &[host(address), port.as_bytes(), quorum.as_bytes()]);
        let timing = &self.timing;
        let numbers = [
            ("down-after-milliseconds", primary.down_after_ms, timing.default_down_after_ms),
            ("failover-timeout", settings.failover_timeout_ms, timing.default_failover_timeout_ms),
            ("parallel-syncs", settings.parallel_syncs, 1),
            ("master-reboot-down-after-period", settings.reboot_down_after_ms, 0),
        ];
        for (option, value, default) in numbers {
            if value != default {
                line(option, &[value.to_string().as_bytes()]);
            }
        }
        let words = [
            ("notification-script", settings.notification_script.as_deref().map(str::as_bytes)),
            ("client-reconfig-script", settings.client_reconfig_script.as_deref().map(str::as_bytes)),
            ("auth-pass", settings.auth_pass.as_deref()),
            ("auth-user", settings.auth_user.as_deref()),
        ];
        for (option, value) in words {
            if let Some(value) = value {
                line(option, &[value]);
            }
        }
        line("config-epoch", &[primary.config_epoch.to_string().as_bytes()]);
        line("leader-epoch", &[primary.vote.epoch.to_string().as_bytes()]);
        for (role, known) in [(Role::Replica, &primary.replicas), (Role::Sentinel, &primary.sentinels)] {
            for one in known.values().map(|id| self.get(*id)) {
                // When the promoted one is the primary already, the old one is its replica.
                let is_current = role == Role::Replica && one.address.is_same(address);
                let place = if is_current { &primary.address } else { &one.address };
                let port = place.port.to_string();
                match role {
                    Role::Replica => line("known-replica", &[host(place), port.as_bytes()]),
                    _ => line("known-sentinel", &[host(place), port.as_bytes(), one.name.as_bytes()]),
                }
            }
        }
        for (old, new) in &settings.renamed_commands {
            line("rename-command", &[old.as_bytes(), new.as_bytes()]);
        }
    }
}

/// The lines so far.
struct Lines(Vec<Line>);

impl Lines {
    fn push(&mut self, option: &'static str, words: &[&[u8]], is_default: bool) {
        let mut text = [b"sentinel ", option.as_bytes()].concat();
        for word in words {
            text.push(b' ');
            append_word(&mut text, word);
        }
        self.0.push(Line { option: format!("sentinel {option}"), text: Some(text), is_default });
    }

    fn word(&mut self, option: &'static str, word: &str) {
        self.push(option, &[word.as_bytes()], false);
    }

    fn flag(&mut self, option: &'static str, value: bool, default: bool) {
        let word: &[u8] = if value { b"yes" } else { b"no" };
        self.push(option, &[word], value == default);
    }

    fn optional(&mut self, option: &'static str, value: Option<&[u8]>) {
        match value {
            Some(value) => self.push(option, &[value], false),
            None => self.remove(option),
        }
    }

    fn remove(&mut self, option: &str) {
        self.0.push(Line { option: format!("sentinel {option}"), text: None, is_default: false });
    }

    fn of_primary(&mut self, option: &'static str, name: &[u8], words: &[&[u8]]) {
        let all: Vec<&[u8]> = std::iter::once(name).chain(words.iter().copied()).collect();
        self.push(option, &all, false);
    }
}

/// Appends a word, in quotes if it would not read back otherwise.
fn append_word(out: &mut Vec<u8>, word: &[u8]) {
    let is_plain =
        !word.is_empty() && word.iter().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(byte));
    if is_plain { out.extend_from_slice(word) } else { append_quoted(out, word) }
}
