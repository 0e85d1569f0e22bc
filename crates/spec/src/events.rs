//! Classes of key events, with the letters that `notify-keyspace-events` has for them: the only table of
//! them.

/// Classes of key events; the bits of `notify-keyspace-events`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct EventClass(pub u32);

impl EventClass {
    /// `K`: publish to `__keyspace@…`.
    pub const KEYSPACE: EventClass = EventClass(1);
    /// `E`: publish to `__keyevent@…`.
    pub const KEYEVENT: EventClass = EventClass(1 << 1);
    /// `g`: DEL, EXPIRE, RENAME and the like.
    pub const GENERIC: EventClass = EventClass(1 << 2);
    /// `$`: strings.
    pub const STRING: EventClass = EventClass(1 << 3);
    /// `l`: lists.
    pub const LIST: EventClass = EventClass(1 << 4);
    /// `s`: sets.
    pub const SET: EventClass = EventClass(1 << 5);
    /// `h`: hashes.
    pub const HASH: EventClass = EventClass(1 << 6);
    /// `z`: sorted sets.
    pub const ZSET: EventClass = EventClass(1 << 7);
    /// `x`: keys and fields that expired.
    pub const EXPIRED: EventClass = EventClass(1 << 8);
    /// `e`: keys that were evicted.
    pub const EVICTED: EventClass = EventClass(1 << 9);
    /// `t`: streams.
    pub const STREAM: EventClass = EventClass(1 << 10);
    /// `a`: arrays.
    pub const ARRAY: EventClass = EventClass(1 << 21);
    /// `p`: path hashes.
    pub const PATH_HASH: EventClass = EventClass(1 << 22);
    /// `m`: reads of keys that are not there; not part of `A`.
    pub const MISSED: EventClass = EventClass(1 << 11);
    /// `d`: types of modules.
    pub const MODULE: EventClass = EventClass(1 << 13);
    /// `n`: keys that came into being; not part of `A`.
    pub const NEW: EventClass = EventClass(1 << 14);
    /// `o`: keys whose value was replaced by another; not part of `A`.
    pub const OVERWRITTEN: EventClass = EventClass(1 << 15);
    /// `c`: keys whose value was replaced by one of another type; not part of `A`.
    pub const TYPE_CHANGED: EventClass = EventClass(1 << 16);
    /// `S`: publish to `__subkeyspace@…`.
    pub const SUBKEYSPACE: EventClass = EventClass(1 << 17);
    /// `T`: publish to `__subkeyevent@…`.
    pub const SUBKEYEVENT: EventClass = EventClass(1 << 18);
    /// `I`: publish to `__subkeyspaceitem@…`.
    pub const SUBKEYSPACEITEM: EventClass = EventClass(1 << 19);
    /// `V`: publish to `__subkeyspaceevent@…`.
    pub const SUBKEYSPACEEVENT: EventClass = EventClass(1 << 20);
    /// The channels that name subkeys.
    pub const OF_SUBKEYS: EventClass = EventClass(
        Self::SUBKEYSPACE.0 | Self::SUBKEYEVENT.0 | Self::SUBKEYSPACEITEM.0 | Self::SUBKEYSPACEEVENT.0,
    );
    /// The channels, without one of which nothing is published.
    pub const CHANNELS: EventClass = EventClass(Self::KEYSPACE.0 | Self::KEYEVENT.0 | Self::OF_SUBKEYS.0);
    /// `A`: every class but those that exclude themselves from it.
    pub const ALL: EventClass = EventClass(
        Self::GENERIC.0
            | Self::STRING.0
            | Self::LIST.0
            | Self::SET.0
            | Self::HASH.0
            | Self::ZSET.0
            | Self::EXPIRED.0
            | Self::EVICTED.0
            | Self::STREAM.0
            | Self::MODULE.0
            | Self::ARRAY.0
            | Self::PATH_HASH.0,
    );

    /// The letters of classes, in the order in which they are shown, unless `A` is shown for all of them.
    pub const CLASSES: [(u8, EventClass); 15] = [
        (b'g', Self::GENERIC),
        (b'$', Self::STRING),
        (b'l', Self::LIST),
        (b's', Self::SET),
        (b'h', Self::HASH),
        (b'z', Self::ZSET),
        (b'x', Self::EXPIRED),
        (b'e', Self::EVICTED),
        (b't', Self::STREAM),
        (b'd', Self::MODULE),
        (b'a', Self::ARRAY),
        (b'p', Self::PATH_HASH),
        (b'n', Self::NEW),
        (b'o', Self::OVERWRITTEN),
        (b'c', Self::TYPE_CHANGED),
    ];
    /// The letters that are shown behind the classes or `A`.
    pub const REST: [(u8, EventClass); 7] = [
        (b'K', Self::KEYSPACE),
        (b'E', Self::KEYEVENT),
        (b'm', Self::MISSED),
        (b'S', Self::SUBKEYSPACE),
        (b'T', Self::SUBKEYEVENT),
        (b'I', Self::SUBKEYSPACEITEM),
        (b'V', Self::SUBKEYSPACEEVENT),
    ];
}
