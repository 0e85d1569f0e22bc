//! FT.CONFIG: the parameters of search by the names that they had before Redis 8. Values are those of the
//! `search-*` parameters, which CONFIG shows, too.

use martlet_command::{Error, Flags, Outcome, command};
use martlet_protocol::reply::Reply;
use martlet_search::arguments::{Cursor, Numbers};
use martlet_spec::Acl;

use super::GROUP;
use crate::commands::{Call, ServerCommand, ServerHandler};
use crate::config::{Config, RESULTS_MAX, Setter};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&CONFIG];

static CONFIG: ServerCommand = command("ft.config", -3, config as ServerHandler)
    .flags(Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::EXCLUSIVE))
    .acl(Acl::SEARCH.with(Acl::ADMIN))
    .syntax("action option ?value")
    .doc(GROUP, "1.0.0", "O(1)", "Shows, sets and describes the parameters of search");

/// How an option's value is read and written.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A number between these.
    Number(i64, i64),
    /// A number with a separate error above the greatest.
    Below(i64, i64, &'static str),
    /// A number with a separate error below the least, from 1 on.
    Above(i64, i64, &'static str),
    /// A limit of results; -1 is unlimited.
    Results,
    /// `true` or `false`.
    Truth,
    /// One of the parameter's words.
    Word(&'static str),
    /// Only set at start: a truth.
    FixedTruth,
    /// Only set at start: a number.
    FixedNumber,
    /// Only set at start: a text; an empty one is null.
    FixedText,
}

/// An option: its name, its parameter, and how its value is read.
type Named = (&'static str, &'static str, Kind);

/// An option that is always the same, whether it may be set to that, and its description.
type Constant = (&'static str, &'static str, bool, &'static str);

const LONG_MAX: i64 = i64::MAX;
const UINT_MAX: i64 = u32::MAX as i64;

/// The options of RediSearch 2.10.5, in its order, and DEFAULT_SCORER of Redis 8.
static OPTIONS: &[Result<Named, Constant>] = {
    use Kind::*;
    &[
        Ok(("EXTLOAD", "search-ext-load", FixedText)),
        Ok(("NOGC", "search-no-gc", FixedTruth)),
        Ok(("MINPREFIX", "search-min-prefix", Number(1, LONG_MAX))),
        Ok((
            "MINSTEMLEN",
            "search-min-stem-len",
            Above(2, UINT_MAX, "Minimum stem length cannot be lower than 2"),
        )),
        Ok(("FORKGC_SLEEP_BEFORE_EXIT", "search-fork-gc-sleep-before-exit", Number(0, LONG_MAX))),
        Ok(("MAXDOCTABLESIZE", "search-max-doctablesize", FixedNumber)),
        Ok(("MAXSEARCHRESULTS", "search-max-search-results", Results)),
        Ok(("MAXAGGREGATERESULTS", "search-max-aggregate-results", Results)),
        Ok(("MAXEXPANSIONS", "search-max-prefix-expansions", Number(1, LONG_MAX))),
        Ok(("MAXPREFIXEXPANSIONS", "search-max-prefix-expansions", Number(1, LONG_MAX))),
        Ok(("TIMEOUT", "search-timeout", Number(0, LONG_MAX))),
        Ok(("FRISOINI", "search-friso-ini", FixedText)),
        Ok(("ON_TIMEOUT", "search-on-timeout", Word("Invalid ON_TIMEOUT value"))),
        Ok(("GCSCANSIZE", "search-gc-scan-size", Number(1, LONG_MAX))),
        Ok(("MIN_PHONETIC_TERM_LEN", "search-min-phonetic-term-len", Number(1, LONG_MAX))),
        Err(("GC_POLICY", "fork", false, "How indexes lose what gone documents have left")),
        Ok(("FORK_GC_RUN_INTERVAL", "search-fork-gc-run-interval", Number(1, LONG_MAX))),
        Ok(("FORK_GC_CLEAN_THRESHOLD", "search-fork-gc-clean-threshold", Number(0, LONG_MAX))),
        Ok(("FORK_GC_RETRY_INTERVAL", "search-fork-gc-retry-interval", Number(1, LONG_MAX))),
        Err(("FORK_GC_CLEAN_NUMERIC_EMPTY_NODES", "true", true, "Empty nodes of numbers are dropped")),
        Err(("_FORK_GC_CLEAN_NUMERIC_EMPTY_NODES", "true", true, "Empty nodes of numbers are dropped")),
        Ok(("UNION_ITERATOR_HEAP", "search-union-iterator-heap", Number(1, LONG_MAX))),
        Ok(("CURSOR_MAX_IDLE", "search-cursor-max-idle", Number(1, LONG_MAX))),
        Ok(("NO_MEM_POOLS", "search-no-mem-pools", FixedTruth)),
        Ok(("PARTIAL_INDEXED_DOCS", "search-partial-indexed-docs", FixedTruth)),
        Err(("UPGRADE_INDEX", "Upgrade config for upgrading", false, "Indexes of RediSearch 1 in a file")),
        Ok(("_NUMERIC_COMPRESS", "search-_numeric-compress", Truth)),
        Ok(("_FREE_RESOURCE_ON_THREAD", "search-_free-resource-on-thread", Truth)),
        Ok(("_PRINT_PROFILE_CLOCK", "search-_print-profile-clock", Truth)),
        Ok(("RAW_DOCID_ENCODING", "search-raw-docid-encoding", FixedTruth)),
        Ok((
            "_NUMERIC_RANGES_PARENTS",
            "search-_numeric-ranges-parents",
            Below(0, 2, "Max depth for range cannot be higher than max depth for balance"),
        )),
        Ok((
            "DEFAULT_DIALECT",
            "search-default-dialect",
            Below(1, 4, "Default dialect version cannot be higher than 4"),
        )),
        Ok(("DEFAULT_SCORER", "search-default-scorer", Word("Invalid default scorer value"))),
        Ok(("VSS_MAX_RESIZE", "search-vss-max-resize", Number(0, LONG_MAX))),
        Ok(("MULTI_TEXT_SLOP", "search-multi-text-slop", FixedNumber)),
        Ok(("BG_INDEX_SLEEP_GAP", "search-bg-index-sleep-gap", FixedNumber)),
        Ok(("_PRIORITIZE_INTERSECT_UNION_CHILDREN", "search-_prioritize-intersect-union-children", Truth)),
    ]
};

fn name_of(option: &Result<Named, Constant>) -> &'static str {
    match option {
        Ok((name, ..)) | Err((name, ..)) => name,
    }
}

fn config(call: &mut Call<'_>) -> Outcome {
    let words: Vec<&[u8]> = call.args.iter().collect();
    let (action, name) = (words[1], words[2]);
    let is_action = |known: &str| action.eq_ignore_ascii_case(known.as_bytes());
    let find = || OPTIONS.iter().find(|option| name_of(option).as_bytes().eq_ignore_ascii_case(name));
    if is_action("SET") {
        let option = find().ok_or(Error::Fixed("Invalid option"))?;
        return set(call, option, &words[3..]);
    }
    if !is_action("GET") && !is_action("HELP") {
        call.reply.simple("No such configuration action");
        return Ok(());
    }
    let shown = if name == b"*" { OPTIONS } else { find().map(std::slice::from_ref).unwrap_or_default() };
    let config = std::sync::Arc::clone(call.worker.config());
    show(&config, shown, is_action("HELP"), call.reply);
    Ok(())
}

fn show(config: &Config, options: &[Result<Named, Constant>], with_help: bool, reply: &mut Reply) {
    let is_resp3 = reply.is_resp3();
    match is_resp3 {
        true => reply.map(options.len()),
        false => reply.array(options.len()),
    }
    for option in options {
        match (is_resp3, with_help) {
            (true, _) => {}
            (false, true) => reply.array(5),
            (false, false) => reply.array(2),
        }
        reply.simple(name_of(option));
        if with_help {
            if is_resp3 {
                reply.map(2);
            }
            reply.simple("Description");
            reply.simple(description(option));
            reply.simple("Value");
        }
        write_value(config, option, reply);
    }
}

fn description(option: &Result<Named, Constant>) -> &'static str {
    match option {
        Ok((_, parameter, _)) => {
            crate::config::find(parameter.as_bytes()).map_or("", |parameter| parameter.doc.trim())
        }
        Err((.., description)) => description,
    }
}

fn write_value(config: &Config, option: &Result<Named, Constant>, reply: &mut Reply) {
    let (parameter, kind) = match option {
        Err((_, value, ..)) => return reply.bulk(value.as_bytes()),
        Ok((_, parameter, kind)) => (parameter, kind),
    };
    let value = crate::config::find(parameter.as_bytes()).map(|parameter| parameter.get(config));
    let value = value.unwrap_or_default();
    match kind {
        Kind::Truth | Kind::FixedTruth => reply.bulk(if value == b"yes" { b"true" } else { b"false" }),
        Kind::Results if value == RESULTS_MAX.to_string().as_bytes() => reply.bulk(b"unlimited"),
        Kind::FixedText if value.is_empty() => reply.null(),
        _ => reply.bulk(&value),
    }
}

fn set(call: &mut Call<'_>, option: &Result<Named, Constant>, words: &[&[u8]]) -> Outcome {
    let mut cursor = Cursor::new(words, Numbers::Redis);
    let change = match option {
        Err((_, _, false, _)) => return Err(Error::Fixed("Not modifiable at runtime")),
        Err(_) => None,
        Ok((_, parameter, kind)) => Some((parameter, read(*kind, parameter, &mut cursor)?)),
    };
    if !cursor.is_at_end() {
        // RediSearch says so in a status, and has set the value.
        call.reply.simple("EXCESSARGS");
        return Ok(());
    }
    if let Some((parameter, value)) = change {
        let setter = Setter {
            is_local: call.connection.is_local(),
            is_loading: call.worker.shared.persistence.is_loading(),
        };
        let set = call.worker.shared.config.set(&[(parameter.as_bytes(), &value)], setter);
        set.map_err(|error| Error::Bytes(error.reply()))?;
        call.worker.follow_config();
    }
    call.reply.ok();
    Ok(())
}

/// The value of a parameter from the words of FT.CONFIG SET, in RediSearch's words where it is refused.
fn read(kind: Kind, parameter: &str, cursor: &mut Cursor<'_>) -> Result<Vec<u8>, Error> {
    let refused = |refused: martlet_search::arguments::Refused| Error::Fixed(refused.text());
    let bounds = Error::Fixed(martlet_search::arguments::Refused::Bounds.text());
    let number = match kind {
        Kind::FixedTruth | Kind::FixedNumber | Kind::FixedText => {
            return Err(Error::Fixed("Not modifiable at runtime"));
        }
        Kind::Truth => {
            let word = cursor.string().map_err(refused)?;
            return match (word.eq_ignore_ascii_case(b"true"), word.eq_ignore_ascii_case(b"false")) {
                (true, _) => Ok(b"yes".into()),
                (_, true) => Ok(b"no".into()),
                _ => Err(refused(martlet_search::arguments::Refused::Parse)),
            };
        }
        Kind::Word(error) => {
            let word = cursor.string().map_err(refused)?;
            let Some(crate::config::Kind::OneOf(words)) =
                crate::config::find(parameter.as_bytes()).map(|parameter| parameter.kind)
            else {
                return Err(Error::Fixed(error));
            };
            let known = words.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(word));
            return known.map(|known| known.as_bytes().to_vec()).ok_or(Error::Fixed(error));
        }
        Kind::Results => match cursor.i64(i64::MIN).map_err(refused)? {
            negative if negative < 0 => RESULTS_MAX,
            limit => RESULTS_MAX.min(limit.unsigned_abs()),
        },
        Kind::Number(least, most) | Kind::Below(least, most, _) | Kind::Above(least, most, _) => {
            let number = cursor.i64(i64::MIN).map_err(refused)?;
            match kind {
                Kind::Above(.., error) if number > 0 && number < least => return Err(Error::Fixed(error)),
                // A size without a sign: a negative one is beyond all bounds.
                Kind::Below(0, most, error) if number < 0 || number > most => {
                    return Err(Error::Fixed(error));
                }
                Kind::Below(_, most, error) if number > most => return Err(Error::Fixed(error)),
                _ if number < least || number > most => return Err(bounds),
                _ => number.unsigned_abs(),
            }
        }
    };
    Ok(number.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_its_parameter() {
        for option in OPTIONS {
            let Ok((name, parameter, kind)) = option else { continue };
            let found = crate::config::find(parameter.as_bytes()).unwrap_or_else(|| panic!("{parameter}"));
            let is_fixed = matches!(kind, Kind::FixedTruth | Kind::FixedNumber | Kind::FixedText);
            let setter = Setter { is_local: true, is_loading: false };
            let store = crate::config::ConfigStore::new(Config::default());
            let value = found.get(&Config::default());
            let set = store.set(&[(parameter.as_bytes(), &value)], setter);
            assert_eq!(set.is_err(), is_fixed, "{name}");
            assert!(!description(option).is_empty(), "{name}");
        }
    }

    #[test]
    fn values_are_read_in_the_words_of_redisearch() {
        let option = |name: &str| OPTIONS.iter().flatten().find(|option| option.0 == name).unwrap();
        for (name, word, wanted) in [
            ("TIMEOUT", "0", Ok("0")),
            ("TIMEOUT", "1e3", Ok("1000")),
            ("TIMEOUT", "abc", Err("Could not convert argument to expected type")),
            ("TIMEOUT", "-1", Err("Value is outside acceptable bounds")),
            ("MAXSEARCHRESULTS", "-1", Ok("2147483648")),
            ("MAXSEARCHRESULTS", "7", Ok("7")),
            ("MINSTEMLEN", "1", Err("Minimum stem length cannot be lower than 2")),
            ("MINSTEMLEN", "0", Err("Value is outside acceptable bounds")),
            ("DEFAULT_DIALECT", "0", Err("Value is outside acceptable bounds")),
            ("DEFAULT_DIALECT", "5", Err("Default dialect version cannot be higher than 4")),
            ("ON_TIMEOUT", "FAIL", Ok("fail")),
            ("ON_TIMEOUT", "x", Err("Invalid ON_TIMEOUT value")),
            ("_NUMERIC_COMPRESS", "TRUE", Ok("yes")),
            ("NOGC", "true", Err("Not modifiable at runtime")),
        ] {
            let (_, parameter, kind) = option(name);
            let words = [word.as_bytes()];
            let read = read(*kind, parameter, &mut Cursor::new(&words, Numbers::Redis));
            let read = read.map(|value| String::from_utf8(value).unwrap());
            let read = read.map_err(|error| error.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), wanted, "{name} {word}");
        }
    }
}
