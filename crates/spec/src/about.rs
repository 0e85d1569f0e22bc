//! Facts of a command that only COMMAND shows: its changes, its replacement, the rules of proxies for its
//! requests and replies.

/// A version of Redis and its change. Clients read it to see the abilities of a server of some version, so
/// the versions are Redis' own; only changes that this server has are listed.
pub type Change = (&'static str, &'static str);

/// A command that new clients should not use.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// The version that deprecated it.
    pub since: &'static str,
    /// What to use.
    pub replacement: &'static str,
}

/// Rules for proxies and cluster clients: where to send a request and how replies add up (Redis'
/// `command_tips`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Tip(&'static str);

macro_rules! tips {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        impl Tip {
            $($(#[$doc])* pub const $name: Tip = Tip($text);)*

            /// The text in COMMAND INFO.
            pub const fn text(self) -> &'static str {
                self.0
            }
        }
    };
}

tips! {
    /// The same request need not have the same reply.
    NONDETERMINISTIC_OUTPUT = "nondeterministic_output";
    /// The same elements, in no certain order.
    NONDETERMINISTIC_OUTPUT_ORDER = "nondeterministic_output_order";
    /// To every node, replicas included.
    REQUEST_ALL_NODES = "request_policy:all_nodes";
    /// To every primary.
    REQUEST_ALL_SHARDS = "request_policy:all_shards";
    /// In parts, to the shards of its keys.
    REQUEST_MULTI_SHARD = "request_policy:multi_shard";
    /// In a way of the command's own.
    REQUEST_SPECIAL = "request_policy:special";
    /// True if all are.
    RESPONSE_AGG_LOGICAL_AND = "response_policy:agg_logical_and";
    /// The least number.
    RESPONSE_AGG_MIN = "response_policy:agg_min";
    /// The sum.
    RESPONSE_AGG_SUM = "response_policy:agg_sum";
    /// Success if all had it.
    RESPONSE_ALL_SUCCEEDED = "response_policy:all_succeeded";
    /// Success if one had it.
    RESPONSE_ONE_SUCCEEDED = "response_policy:one_succeeded";
    /// In a way of the command's own.
    RESPONSE_SPECIAL = "response_policy:special";
}
