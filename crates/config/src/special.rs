//! Parameters whose text has its own grammar.

use std::net::IpAddr;
use std::path::PathBuf;

use martlet_spec::EventClass;
use martlet_tseries::policy::{self, CompactionPolicy};

use super::value::{Kind, Lines, Value, lenient_integer, memory, memory_text, single};

/// The working directory of the process, or the root where it has none.
pub(super) fn working_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| "/".into())
}

/// When the data is saved by itself: a number of changes, and of seconds since the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// At least one.
    pub seconds: u64,
    /// How many changes it takes.
    pub changes: u64,
}

/// All save points; none means that nothing is saved on its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavePoints(pub Vec<SavePoint>);

impl SavePoints {
    /// Redis' defaults: an hour and a change, five minutes and a hundred, a minute and ten thousand.
    pub(super) fn standard() -> Self {
        Self(
            [(3600, 1), (300, 100), (60, 10_000)]
                .map(|(seconds, changes)| SavePoint { seconds, changes })
                .into(),
        )
    }
}

impl Value for SavePoints {
    fn parse(words: &[&[u8]], previous: &Self, append: bool, _: &Kind) -> Result<Self, String> {
        let refusal = || String::from("Invalid save parameters");
        let mut points = if append { previous.clone() } else { Self::default() };
        if let [[]] = words {
            return Ok(Self::default());
        }
        if !words.len().is_multiple_of(2) {
            return Err(refusal());
        }
        for pair in words.chunks_exact(2) {
            let number = |word| lenient_integer(word).and_then(|value| u64::try_from(value).ok());
            let seconds = number(pair[0]).filter(|&seconds| seconds >= 1).ok_or_else(refusal)?;
            let changes = number(pair[1]).ok_or_else(refusal)?;
            points.0.push(SavePoint { seconds, changes });
        }
        Ok(points)
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        let points: Vec<_> =
            self.0.iter().map(|point| format!("{} {}", point.seconds, point.changes)).collect();
        points.join(" ").into()
    }

    fn lines(&self, _: &Self, _: &Kind) -> Lines {
        if self.0.is_empty() {
            return Lines::one(b"\"\"".into(), true);
        }
        Lines(
            self.0
                .iter()
                .map(|point| (format!("{} {}", point.seconds, point.changes).into(), true))
                .collect(),
        )
    }
}

/// When a client that does not read its replies is disconnected; zero switches a limit off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// At once.
    pub hard_bytes: u64,
    /// When above it for `soft_seconds`.
    pub soft_bytes: u64,
    /// How long the soft limit may be exceeded.
    pub soft_seconds: u64,
}

/// A class of clients with its own output limit; its number is the index into `client_output_buffer_limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputClass {
    /// Everyone else, MONITOR included.
    Normal = 0,
    /// Replicas.
    Replica = 1,
    /// Clients in subscribed state.
    Pubsub = 2,
}

impl OutputClass {
    /// The name in CONFIG GET and CLIENT LIST.
    const NAMES: [&'static str; 3] = ["normal", "slave", "pubsub"];

    fn from_name(name: &[u8]) -> Option<Self> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Some(Self::Normal),
            b"slave" | b"replica" => Some(Self::Replica),
            b"pubsub" => Some(Self::Pubsub),
            _ => None,
        }
    }
}

/// The limits of normal clients, replicas and subscribers.
pub(super) const OUTPUT_LIMITS: [OutputLimit; 3] = [
    OutputLimit { hard_bytes: 0, soft_bytes: 0, soft_seconds: 0 },
    OutputLimit { hard_bytes: 256 << 20, soft_bytes: 64 << 20, soft_seconds: 60 },
    OutputLimit { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_seconds: 60 },
];

impl Value for [OutputLimit; 3] {
    fn parse(words: &[&[u8]], previous: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        let mut limits = *previous;
        // An empty text changes nothing.
        if let [[]] = words {
            return Ok(limits);
        }
        if !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.".into());
        }
        for group in words.chunks_exact(4) {
            let class = OutputClass::from_name(group[0])
                .ok_or("Invalid client class specified in buffer limit configuration.")?;
            let refusal = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
            let seconds = lenient_integer(group[3]).and_then(|seconds| u64::try_from(seconds).ok());
            limits[class as usize] = OutputLimit {
                hard_bytes: memory(group[1]).ok_or(refusal)?,
                soft_bytes: memory(group[2]).ok_or(refusal)?,
                soft_seconds: seconds.filter(|&seconds| seconds <= i32::MAX as u64).ok_or(refusal)?,
            };
        }
        Ok(limits)
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        let limits = self.iter().zip(OutputClass::NAMES).map(|(limit, name)| {
            format!("{name} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_seconds)
        });
        limits.collect::<Vec<_>>().join(" ").into()
    }

    fn lines(&self, default: &Self, _: &Kind) -> Lines {
        let names = ["normal", "replica", "pubsub"];
        Lines(
            (self.iter().zip(default).zip(names))
                .map(|((limit, default), name)| {
                    let (hard, soft) = (memory_text(limit.hard_bytes), memory_text(limit.soft_bytes));
                    (format!("{name} {hard} {soft} {}", limit.soft_seconds).into(), limit != default)
                })
                .collect(),
        )
    }
}

/// The kernel's OOM scores of a primary, a replica and a background child.
impl Value for [i32; 3] {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        let &[primary, replica, child] = words else { return Err("wrong number of arguments".into()) };
        let score = |word| match lenient_integer(word) {
            Some(score @ -2000..=2000) => Ok(score as i32),
            _ => Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000."),
        };
        Ok([score(primary)?, score(replica)?, score(child)?])
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        self.map(|score| score.to_string()).join(" ").into()
    }

    fn lines(&self, default: &Self, kind: &Kind) -> Lines {
        Lines::one(self.render(kind), self != default)
    }
}

/// The classes of keyspace events that are published: a set of letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceEvents(pub u32);

impl KeyspaceEvents {
    /// Every letter but `A`, in the order in which they are shown.
    #[cfg(test)]
    pub(super) fn all_letters() -> String {
        EventClass::CLASSES.iter().chain(&EventClass::REST).map(|(letter, _)| char::from(*letter)).collect()
    }

    fn has(self, class: EventClass) -> bool {
        self.0 & class.0 != 0
    }
}

impl Value for KeyspaceEvents {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        let mut events = 0;
        for letter in single(words)? {
            events |= match letter {
                b'A' => EventClass::ALL.0,
                _ => EventClass::CLASSES
                    .iter()
                    .chain(&EventClass::REST)
                    .find(|(known, _)| known == letter)
                    .map(|(_, class)| class.0)
                    .ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'.")?,
            };
        }
        Ok(Self(events))
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        let letters = |classes: &[(u8, EventClass)]| -> Vec<u8> {
            classes.iter().filter(|(_, class)| self.has(*class)).map(|(letter, _)| *letter).collect()
        };
        let all = EventClass::ALL.0;
        let mut text = if self.0 & all == all { b"A".into() } else { letters(&EventClass::CLASSES) };
        text.extend(letters(&EventClass::REST));
        text
    }

    fn lines(&self, default: &Self, kind: &Kind) -> Lines {
        Lines::one(super::value::quote(&self.render(kind)), self != default)
    }
}

/// The metrics of each slot: `no`, `yes` for all, or some of the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotMetrics {
    /// `cpu`: the time of its commands.
    pub cpu: bool,
    /// `net`: bytes in and out.
    pub net: bool,
    /// `mem`: bytes of its keys.
    pub mem: bool,
}

impl SlotMetrics {
    /// Nothing.
    pub const NONE: SlotMetrics = SlotMetrics { cpu: false, net: false, mem: false };
    /// Everything.
    pub const ALL: SlotMetrics = SlotMetrics { cpu: true, net: true, mem: true };
}

impl Value for SlotMetrics {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        let mut words: Vec<&[u8]> = words.iter().flat_map(|text| text.split(|byte| *byte == b' ')).collect();
        words.retain(|word| !word.is_empty());
        match words.as_slice() {
            [word] if word.eq_ignore_ascii_case(b"no") => return Ok(Self::NONE),
            [word] if word.eq_ignore_ascii_case(b"yes") => return Ok(Self::ALL),
            _ => {}
        }
        let mut metrics = Self::NONE;
        for word in &words {
            match word.to_ascii_lowercase().as_slice() {
                b"cpu" => metrics.cpu = true,
                b"net" => metrics.net = true,
                b"mem" => metrics.mem = true,
                _ => return Err("argument must be 'yes', 'no', or some of 'cpu', 'net' and 'mem'".into()),
            }
        }
        if words.is_empty() { Err("argument must be 'yes' or 'no'".into()) } else { Ok(metrics) }
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        if *self == Self::NONE {
            return b"no".into();
        } else if *self == Self::ALL {
            return b"yes".into();
        }
        let words = [("cpu", self.cpu), ("net", self.net), ("mem", self.mem)];
        let words: Vec<_> = words.iter().filter(|(_, is_on)| *is_on).map(|(word, _)| *word).collect();
        words.join(" ").into()
    }

    fn lines(&self, default: &Self, kind: &Kind) -> Lines {
        Lines::one(self.render(kind), self != default)
    }
}

/// The indexes of a slice of an array: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceSize(pub u32);

impl Value for SliceSize {
    fn parse(words: &[&[u8]], previous: &Self, append: bool, kind: &Kind) -> Result<Self, String> {
        match u32::parse(words, &previous.0, append, kind)? {
            size if size.is_power_of_two() => Ok(SliceSize(size)),
            _ => Err("array-slice-size must be a power of two".into()),
        }
    }

    fn render(&self, kind: &Kind) -> Vec<u8> {
        self.0.render(kind)
    }

    fn lines(&self, default: &Self, kind: &Kind) -> Lines {
        self.0.lines(&default.0, kind)
    }
}

/// The share of absent items that a Bloom filter reports as present.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorRate(pub f64);

impl ErrorRate {
    /// The highest that Redis takes; a higher one is lowered to it.
    pub const MAX: f64 = 0.25;
}

impl Value for ErrorRate {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        let rate = martlet_base::number::parse_f64(single(words)?);
        let rate = rate.ok_or("Invalid value for `bf-error-rate`")?;
        if rate > 0.0 && rate < 1.0 {
            Ok(ErrorRate(rate.min(ErrorRate::MAX)))
        } else {
            Err("Value for `bf-error-rate` must be in the range (0.000000, 1.000000)".into())
        }
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        self.0.to_string().into()
    }

    fn lines(&self, default: &Self, kind: &Kind) -> Lines {
        Lines::one(self.render(kind), self != default)
    }
}

/// `ts-chunk-size-bytes`: a multiple of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkBytes(pub u64);

impl Value for ChunkBytes {
    fn parse(words: &[&[u8]], previous: &Self, append: bool, kind: &Kind) -> Result<Self, String> {
        match u64::parse(words, &previous.0, append, kind)? {
            bytes if bytes.is_multiple_of(8) => Ok(ChunkBytes(bytes)),
            _ => Err("TSDB: CHUNK_SIZE value must be a multiple of 8 in the range [48 .. 1048576]".into()),
        }
    }

    fn render(&self, kind: &Kind) -> Vec<u8> {
        self.0.render(kind)
    }

    fn lines(&self, default: &Self, kind: &Kind) -> Lines {
        self.0.lines(&default.0, kind)
    }
}

/// `ts-compaction-policy`: rules of new time series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesPolicies(pub Vec<CompactionPolicy>);

impl Value for SeriesPolicies {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        let text = String::from_utf8_lossy(words.first().copied().unwrap_or_default());
        let policies = policy::parse(&text).filter(|_| words.len() <= 1);
        policies.map(SeriesPolicies).ok_or_else(|| format!("Invalid compaction policy: {text}"))
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        policy::render(&self.0).into()
    }

    fn lines(&self, default: &Self, kind: &Kind) -> Lines {
        let text = [b"\"".to_vec(), self.render(kind), b"\"".to_vec()].concat();
        Lines::one(text, self != default)
    }
}

/// `ts-ignore-max-val-diff`: a number that is not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference(pub f64);

impl Value for Difference {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        let [word] = words else { return Err("Invalid value for `ts-ignore-max-val-diff`".into()) };
        let value = martlet_base::number::parse_f64(word).filter(|value| value.is_finite());
        match value {
            None => Err("Invalid value for `ts-ignore-max-val-diff`".into()),
            Some(value) if value < 0.0 => Err(format!(
                "Invalid value for `ts-ignore-max-val-diff`. Value must be in the range [{:.6} .. {:.6}]",
                0.0,
                f64::MAX
            )),
            Some(value) => Ok(Difference(value)),
        }
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        format!("{:.6}", self.0).into()
    }

    fn lines(&self, default: &Self, _: &Kind) -> Lines {
        Lines::one(format!("{:?}", self.0).into(), self != default)
    }
}

/// The most addresses that `bind` takes.
const MAX_ADDRESSES: usize = 16;

/// The addresses that a server without `bind` listens on: all of IPv4, and of IPv6 where the machine has it.
pub(super) fn all_addresses() -> Vec<String> {
    vec!["*".into(), "-::*".into()]
}

/// The addresses that only this machine reaches.
pub(super) fn loopback_addresses() -> Vec<String> {
    vec!["127.0.0.1".into(), "-::1".into()]
}

/// Addresses to listen on; a leading `-` allows that one is not there.
impl Value for Vec<String> {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        if words.len() > MAX_ADDRESSES {
            return Err("Too many bind addresses specified.".into());
        }
        if let [[]] = words {
            return Ok(Self::new());
        }
        words.iter().map(|word| super::value::Text::from_bytes(word)).collect()
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        self.join(" ").into()
    }

    fn lines(&self, default: &Self, kind: &Kind) -> Lines {
        match self.as_slice() {
            _ if self == default => Lines::none(),
            [] => Lines::one(b"\"\"".into(), true),
            _ => Lines::one(self.render(kind), true),
        }
    }
}

/// The server that a replica copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// Where to copy from, if anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaOf(pub Option<Primary>);

impl Value for ReplicaOf {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        let &[host, port] = words else { return Err("wrong number of arguments".into()) };
        if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
            return Ok(Self(None));
        }
        let port =
            lenient_integer(port).and_then(|port| u16::try_from(port).ok()).ok_or("Invalid master port")?;
        let host = super::value::Text::from_bytes(host)?;
        Ok(Self(Some(Primary { host, port })))
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        self.0.as_ref().map_or(Vec::new(), |primary| format!("{} {}", primary.host, primary.port).into())
    }

    fn lines(&self, _: &Self, kind: &Kind) -> Lines {
        match self.0 {
            None => Lines::none(),
            Some(_) => Lines::one(self.render(kind), true),
        }
    }
}

/// The percentiles that INFO latencystats shows.
impl Value for Vec<f64> {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        if let [[]] = words {
            return Ok(Self::new());
        }
        let percentile = |word: &&[u8]| {
            let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
            match number.filter(|number| !number.is_nan()) {
                None => Err("Invalid latency-tracking-info-percentiles parameters".into()),
                Some(number) if (0.0..=100.0).contains(&number) => Ok(number),
                Some(_) => {
                    Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into())
                }
            }
        };
        words.iter().map(percentile).collect()
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        let texts = self.iter().map(|number| {
            let text = format!("{number:.6}");
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        });
        texts.collect::<Vec<_>>().join(" ").into()
    }

    fn lines(&self, _: &Self, kind: &Kind) -> Lines {
        let text = self.render(kind);
        Lines::one(if text.is_empty() { b"\"\"".into() } else { text }, true)
    }
}

/// Whether a path is a plain name without directories.
fn is_base_name(path: &[u8]) -> bool {
    !path.contains(&b'/') && !path.contains(&b'\\')
}

/// Checks `dbfilename`.
pub(super) fn dbfilename(text: &[u8]) -> Result<(), &'static str> {
    is_base_name(text).then_some(()).ok_or("dbfilename can't be a path, just a filename")
}

/// Checks `appendfilename`.
pub(super) fn appendfilename(text: &[u8]) -> Result<(), &'static str> {
    match text {
        [] => Err("appendfilename can't be empty"),
        _ if is_base_name(text) => Ok(()),
        _ => Err("appendfilename can't be a path, just a filename"),
    }
}

/// Checks `appenddirname`.
pub(super) fn appenddirname(text: &[u8]) -> Result<(), &'static str> {
    match text {
        [] => Err("appenddirname can't be empty"),
        _ if is_base_name(text) => Ok(()),
        _ => Err("appenddirname can't be a path, just a dirname"),
    }
}

/// Checks `cluster-config-file`.
pub(super) fn cluster_config_file(text: &[u8]) -> Result<(), &'static str> {
    if text.is_empty() { Err("cluster-config-file can't be empty") } else { Ok(()) }
}

/// Checks `cluster-announce-hostname`.
pub(super) fn hostname(text: &[u8]) -> Result<(), &'static str> {
    if text.len() >= 256 {
        return Err("Hostnames must be less than 256 characters");
    }
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    text.iter()
        .all(allowed)
        .then_some(())
        .ok_or("Hostnames may only contain alphanumeric characters, hyphens or dots")
}

/// Checks `cluster-announce-ip`, an address or a name, as Valkey does: a text that the cluster's
/// configuration file can hold.
pub(super) fn announced_address(text: &[u8]) -> Result<(), &'static str> {
    let is_refused = |byte: &u8| *byte <= b',' || *byte == 0x7f || b";<=>?@[]^{|}~\\".contains(byte);
    if text.len() >= martlet_cluster::text::ADDRESS_BYTES {
        return Err("cluster-announce-ip is too long");
    }
    if text.iter().any(is_refused) { Err("cluster-announce-ip contains invalid character") } else { Ok(()) }
}

/// Checks `cluster-announce-human-nodename`: a text that a field of the cluster's configuration file can
/// hold.
pub(super) fn nodename(text: &[u8]) -> Result<(), &'static str> {
    let forbidden = b"!#$%&()*+:;<>?@[]^{|}~ \t\r\n\"'\\,=";
    let refused = text.iter().any(|byte| forbidden.contains(byte) || !byte.is_ascii_graphic());
    if refused { Err("Announced human node name contained invalid character") } else { Ok(()) }
}

/// Checks `availability-zone`, which nodes keep in their files.
pub(super) fn zone(text: &[u8]) -> Result<(), &'static str> {
    let is_text = std::str::from_utf8(text).is_ok_and(martlet_cluster::text::is_auxiliary);
    if is_text { Ok(()) } else { Err("Availability zone contained invalid character") }
}

/// Checks `tls-expected-peer-name`, in Redis' words.
pub(super) fn peer_names(text: &[u8]) -> Result<(), &'static str> {
    if text.iter().any(|byte| byte.is_ascii_whitespace() && *byte != b' ') {
        return Err(
            "tls-expected-peer-name must not contain whitespace other than spaces separating names; use an empty string to disable it",
        );
    }
    if !text.is_empty() && text.iter().all(|byte| *byte == b' ') {
        return Err("tls-expected-peer-name contains no usable name; use an empty string to disable it");
    }
    Ok(())
}

/// Addresses and subnets, as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subnets {
    text: String,
    /// Each address, v4 ones mapped into v6, with the number of bits that count.
    ranges: Vec<(u128, u32)>,
}

impl Subnets {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether one has this address.
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = bits_of(address);
        self.ranges.iter().any(|(base, bits)| {
            let shift = 128 - bits;
            shift == 128 || (address ^ base) >> shift == 0
        })
    }

    fn read(text: &str) -> Option<Subnets> {
        let words = text.split([' ', ',']).filter(|word| !word.is_empty());
        let range = |word: &str| {
            let (address, bits) = word.split_once('/').map_or((word, None), |(a, b)| (a, Some(b)));
            let address: IpAddr = address.parse().ok()?;
            let all = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(all), |bits| bits.parse().ok()).filter(|bits| *bits <= all)?;
            Some((bits_of(address), 128 - all + bits))
        };
        Some(Subnets { text: text.to_owned(), ranges: words.map(range).collect::<Option<_>>()? })
    }
}

fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl Value for Subnets {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        let text = std::str::from_utf8(single(words)?).ok();
        text.and_then(Subnets::read).ok_or_else(|| "Invalid IP address or CIDR subnet".into())
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        self.text.clone().into_bytes()
    }

    fn lines(&self, default: &Self, _: &Kind) -> Lines {
        Lines::one(super::value::quote(self.text.as_bytes()), self != default)
    }
}

/// Checks `cluster-announce-client-ipv4`.
pub(super) fn ipv4(text: &[u8]) -> Result<(), &'static str> {
    let address = std::str::from_utf8(text).ok().and_then(|text| text.parse::<std::net::Ipv4Addr>().ok());
    address.map(|_| ()).ok_or("Invalid IPv4 address")
}

/// Checks `cluster-announce-client-ipv6`.
pub(super) fn ipv6(text: &[u8]) -> Result<(), &'static str> {
    let address = std::str::from_utf8(text).ok().and_then(|text| text.parse::<std::net::Ipv6Addr>().ok());
    address.map(|_| ()).ok_or("Invalid IPv6 address")
}

/// The variables of a process title and the rest of the text.
pub enum TitlePart<'a> {
    /// Text that stands for itself.
    Text(&'a str),
    /// The name between braces.
    Variable(&'a str),
}

/// The names that a process title may have between braces.
pub const TITLE_VARIABLES: [&str; 7] =
    ["title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file"];

/// The parts of a process title; none when a brace is open or a name unknown.
pub fn title_parts(template: &str) -> Option<Vec<TitlePart<'_>>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((text, after)) = rest.split_once('{') {
        if let Some(after) = after.strip_prefix('{') {
            parts.extend([TitlePart::Text(text), TitlePart::Text("{")]);
            rest = after;
            continue;
        }
        let (name, after) = after.split_once('}')?;
        TITLE_VARIABLES.contains(&name).then_some(())?;
        parts.extend([TitlePart::Text(text), TitlePart::Variable(name)]);
        rest = after;
    }
    parts.push(TitlePart::Text(rest));
    Some(parts)
}

/// Checks `proc-title-template`.
pub(super) fn proc_title_template(text: &[u8]) -> Result<(), &'static str> {
    let template = std::str::from_utf8(text).ok();
    let valid = !text.is_empty() && template.and_then(title_parts).is_some();
    valid.then_some(()).ok_or("template format is invalid or contains unknown variables")
}
