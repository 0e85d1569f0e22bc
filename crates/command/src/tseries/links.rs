//! What ties a series to other keys: its source, and the destinations of its rules.
//!
//! A tie holds while both ends have it. Where one end was deleted, replaced or brought back alone, the other
//! end's is void: it is not shown, nothing follows it, and the next change of a series drops it.

use martlet_engine::{EventClass, Keys};
use martlet_keyspace::Key;
use martlet_spec::Outcome;
use martlet_tseries::rule::{Action, Effect};
use martlet_tseries::sample::Sample;
use martlet_values::time_series::TimeSeries;

use super::peek;
use martlet_spec::Error;

/// The shards of the keys that a key's series names.
pub(crate) fn links_of(keys: &Keys, key: &Key<'_>) -> impl Iterator<Item = usize> {
    peek(keys, key).into_iter().flat_map(TimeSeries::links).map(|name| Key::new(name).shard())
}

/// Locks the shards of all keys that the series of these keys name.
///
/// # Errors
/// [`Error::NeedsShards`], before anything has changed.
pub(super) fn lock<'k>(keys: &mut Keys, of: impl IntoIterator<Item = &'k Key<'k>>) -> Outcome {
    let mut shards = Vec::new();
    for key in of {
        shards.extend(links_of(keys, key).filter(|shard| !keys.covers(*shard)));
    }
    lock_shards(keys, &shards)
}

/// Locks these shards.
///
/// # Errors
/// As [`lock`].
pub(super) fn lock_shards(keys: &mut Keys, shards: &[usize]) -> Outcome {
    if shards.is_empty() || keys.lock_linked(shards) { Ok(()) } else { Err(Error::NeedsShards) }
}

/// Whether the rule of the series at `source` that fills `destination` holds.
fn is_tied(keys: &Keys, source: &[u8], destination: &[u8]) -> bool {
    let has_source = |series: &TimeSeries| series.source() == Some(source);
    let has_rule = |series: &TimeSeries| series.rules().iter().any(|rule| *rule.destination == *destination);
    peek(keys, &Key::new(destination)).is_some_and(has_source)
        && peek(keys, &Key::new(source)).is_some_and(has_rule)
}

/// The series' source, if the tie holds. Its shard is locked.
pub(super) fn source<'k>(keys: &'k Keys, key: &Key<'_>) -> Option<&'k [u8]> {
    peek(keys, key)?.source().filter(|source| is_tied(keys, source, key.bytes))
}

/// The destinations of the series' rules that hold. Their shards are locked.
pub(super) fn destinations(keys: &Keys, key: &Key<'_>) -> Vec<Box<[u8]>> {
    let rules = peek(keys, key).map_or(&[][..], |series| series.rules());
    let tied = rules.iter().map(|rule| &rule.destination);
    tied.filter(|destination| is_tied(keys, key.bytes, destination)).cloned().collect()
}

/// Drops the series' ties that are void.
pub(super) fn prune(keys: &mut Keys, key: &Key<'_>) {
    let Some(series) = peek(keys, key).filter(|series| series.has_links()) else { return };
    let destinations = series.rules().iter().map(|rule| &rule.destination);
    let void: Vec<Box<[u8]>> = destinations.filter(|name| !is_tied(keys, key.bytes, name)).cloned().collect();
    let loses_source = series.source().is_some() && source(keys, key).is_none();
    if void.is_empty() && !loses_source {
        return;
    }
    if let Ok(Some(mut series)) = keys.write::<TimeSeries>(key) {
        for name in &void {
            // It is one of the series'.
            let _ = series.remove_rule(name);
        }
        if loses_source {
            series.set_source(None);
        }
    }
}

/// Carries out what a change of the series at `source` asks of its destinations, and drops its void rules.
pub(super) fn apply(keys: &mut Keys, source: &Key<'_>, effects: &[Effect]) {
    for effect in effects {
        let key = Key::new(&effect.destination);
        if !is_tied(keys, source.bytes, key.bytes) {
            continue;
        }
        let Ok(Some(mut destination)) = keys.write::<TimeSeries>(&key) else { continue };
        let reopened = destination.apply(&effect.action);
        drop(destination);
        keys.signal(&key);
        match effect.action {
            Action::Close(_) => {
                keys.effects.event(EventClass::MODULE, "ts.add:dest", keys.db(), key.bytes);
            }
            Action::Reopen(_) => {
                if let Ok(Some(mut series)) = keys.write::<TimeSeries>(source) {
                    series.reopen(&effect.destination, reopened);
                }
            }
            Action::Replace(_) | Action::Delete(..) => {}
        }
    }
    prune(keys, source);
}

/// The open bucket of the rule that fills a series (LATEST). The source's shard is locked.
pub(super) fn latest(keys: &Keys, key: &Key<'_>) -> Option<Sample> {
    let source = peek(keys, key)?.source()?;
    peek(keys, &Key::new(source))?.latest(key.bytes)
}

/// Locks what [`renamed`] changes, if the key holds a series.
///
/// # Errors
/// As [`lock`].
pub(crate) fn lock_renamed(keys: &mut Keys, from: &Key<'_>) -> Outcome {
    lock(keys, [from])
}

/// Has the other ends of a series' ties name it anew, before it is renamed.
pub(crate) fn renamed(keys: &mut Keys, from: &Key<'_>, to: &Key<'_>) {
    let of_source = source(keys, from).map(<[u8]>::to_vec);
    let destinations = destinations(keys, from);
    if let Some(source) = of_source
        && let Ok(Some(mut series)) = keys.write::<TimeSeries>(&Key::new(&source))
    {
        series.rename_destination(from.bytes, to.bytes);
    }
    for name in destinations {
        if let Ok(Some(mut series)) = keys.write::<TimeSeries>(&Key::new(&name)) {
            series.set_source(Some(to.bytes));
        }
    }
}
