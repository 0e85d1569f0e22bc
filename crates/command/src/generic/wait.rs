//! WAIT: there are no replicas, so it answers 0, at once or when its time is up.

use crate::Handler;
use crate::context::{Block, Context, TimeoutReply, Wait};
use crate::error::{Error, Outcome};
use crate::spec::{Acl, Command, Flags, Group, Tip, command};

pub(super) static WAIT: Command<Handler> = command("wait", 3, wait as Handler)
    .flags(Flags::BLOCKING)
    .acl(Acl::CONNECTION)
    .syntax("numreplicas:i timeout:i")
    .doc(Group::Generic, "3.0.0", "O(1)", "Waits until replicas have taken over the connection's writes.")
    .tips(&[Tip::REQUEST_ALL_SHARDS, Tip::RESPONSE_AGG_MIN]);

fn wait(ctx: &mut Context<'_>) -> Outcome {
    let replicas = ctx.int(1)?;
    let timeout_ms = ctx.int(2).map_err(|_| Error::Fixed("ERR timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(Error::Fixed("ERR timeout is negative"));
    }
    let deadline_ms =
        ctx.keys.now_ms.checked_add(timeout_ms).ok_or(Error::Fixed("ERR timeout is out of range"))?;
    if replicas <= 0 {
        ctx.reply.int(0);
        return Ok(());
    }
    let deadline_ms = (timeout_ms > 0).then_some(deadline_ms);
    ctx.block_on(Block::new(Wait::Replicas, deadline_ms, TimeoutReply::Zero))
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[test]
    fn nobody_has_to_answer() {
        let mut t = Fixture::new();
        assert_eq!(t.run("WAIT 0 10"), ":0");
        assert_eq!(t.run("WAIT x 0"), "-ERR value is not an integer or out of range");
        assert_eq!(t.run("WAIT 0 -1"), "-ERR timeout is negative");
        t.deny_blocking = true;
        assert_eq!(t.run("WAIT 1 0"), ":0");
    }
}
