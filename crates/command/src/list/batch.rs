//! LMOVEM and BLMOVEM: moving several elements at once from one list's end to another's.
//!
//! Invariant: all elements leave their list before the first arrives, so that within one list none moves
//! twice.

use martlet_spec::{Acl, Command, Cursor, Error, Flags, Group, Outcome, command};
use martlet_types::list::{End, List};

use super::pop::{elements_at, event, side};
use super::transfer::{DESTINATION, MOVES, SOURCE, push_event};
use super::{after_removal, discard, note};
use crate::Handler;
use crate::context::{Block, Context, TimeoutReply, Wait};

/// The moved elements, and their order then.
struct Batch {
    from: End,
    to: End,
    /// The largest number of elements.
    count: usize,
    /// This number or none.
    exactly: bool,
    order: Order,
}

/// How elements that move together lie at their destination.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Order {
    /// As if they were pushed one by one, in the order in which they are popped.
    OneByOne,
    /// As they lay.
    Bulk,
}

impl Order {
    const WORDS: &'static [(&'static str, Order)] = &[("OBO", Order::OneByOne), ("BULK", Order::Bulk)];

    fn word(self) -> &'static [u8] {
        match self {
            Order::OneByOne => b"OBO",
            Order::Bulk => b"BULK",
        }
    }
}

impl Batch {
    /// Reads the words behind the ends: none, or three.
    fn parse((from, to): (End, End), mut rest: Cursor<'_>) -> Result<Batch, Error> {
        if rest.left() == 0 {
            return Ok(Batch { from, to, count: 1, exactly: false, order: Order::Bulk });
        }
        if rest.left() != 3 {
            return Err(Error::Syntax);
        }
        let exactly = rest.one_of(&[("COUNT", false), ("EXACTLY", true)]).ok_or(Error::Syntax)?;
        let count = rest.at_least(1, "ERR count should be greater than 0")? as usize;
        let order = rest.one_of(Order::WORDS).ok_or(Error::Syntax)?;
        Ok(Batch { from, to, count, exactly, order })
    }

    /// Whether elements that are popped one after the other lie the other way round then.
    fn turns_round(&self) -> bool {
        match self.order {
            Order::OneByOne => self.to == End::Head,
            Order::Bulk => self.from == End::Tail,
        }
    }
}

fn ends(ctx: &Context<'_>) -> Result<(End, End), Error> {
    let mut ends = ctx.rest(3);
    Ok((side(&mut ends)?, side(&mut ends)?))
}

pub(super) static LMOVEM: Command<Handler> = command("lmovem", -5, lmovem as Handler)
    .flags(MOVES)
    .keys(&[SOURCE, DESTINATION])
    .acl(Acl::LIST)
    .syntax(
        "source:k0 destination:k1 wherefrom(LEFT|RIGHT) whereto(LEFT|RIGHT) \
         ?how-many(selector(count:i=COUNT|exactly:i=EXACTLY) ordering(OBO|BULK))",
    )
    .doc(
        Group::List,
        "8.10.0",
        "O(N), N being the number of elements moved",
        "Removes elements at one list's end, puts them at another's, and returns them.",
    );

fn lmovem(ctx: &mut Context<'_>) -> Outcome {
    let batch = Batch::parse(ends(ctx)?, ctx.rest(5))?;
    if transfer(ctx, &batch)? == 0 {
        ctx.reply.null_array();
    }
    Ok(())
}

pub(super) static BLMOVEM: Command<Handler> = command("blmovem", -6, blmovem as Handler)
    .flags(MOVES.with(Flags::BLOCKING))
    .keys(&[SOURCE, DESTINATION])
    .acl(Acl::LIST)
    .syntax(
        "source:k0 destination:k1 wherefrom(LEFT|RIGHT) whereto(LEFT|RIGHT) timeout:d \
         ?how-many(selector(count:i=COUNT|exactly:i=EXACTLY) ordering(OBO|BULK))",
    )
    .doc(
        Group::List,
        "8.10.0",
        "O(N), N being the number of elements moved",
        "Removes elements at one list's end, puts them at another's, and returns them; waits for them if there \
         are too few.",
    );

/// A client that waits for a number of elements waits for each growth of the list: the request runs again,
/// and blocks again in its place while there are too few.
fn blmovem(ctx: &mut Context<'_>) -> Outcome {
    let ends = ends(ctx)?;
    let deadline_ms = ctx.deadline_ms(5)?;
    let batch = Batch::parse(ends, ctx.rest(6))?;
    let moved = transfer(ctx, &batch)?;
    if moved == 0 {
        let wait = Wait::value::<List>([1]);
        return ctx.block_on(Block::new(wait, deadline_ms, TimeoutReply::NullArray));
    }
    let args = ctx.args;
    ctx.keys.effects.replace(ctx.keys.db(), || {
        let mut command: Vec<Vec<u8>> = vec![b"LMOVEM".to_vec()];
        command.extend((1..5).map(|index| args.at(index).to_vec()));
        command.push(b"EXACTLY".to_vec());
        command.push(moved.to_string().into_bytes());
        command.push(batch.order.word().to_vec());
        command
    });
    Ok(())
}

/// Moves elements and answers them as they lie then; how many. With none, nothing is changed or answered.
fn transfer(ctx: &mut Context<'_>, batch: &Batch) -> Result<usize, Error> {
    let (source, destination) = (ctx.key(1), ctx.key(2));
    let limit = ctx.settings.list_limit;
    let length = ctx.keys.write::<List>(&source)?.map_or(0, |list| list.len());
    if length == 0 || batch.exactly && length < batch.count {
        return Ok(0);
    }
    // The destination's type counts before anything is changed.
    ctx.keys.write::<List>(&destination)?;
    let count = batch.count.min(length);
    let Some(mut list) = ctx.keys.write::<List>(&source)? else { return Ok(0) };
    let mut moved: Vec<Vec<u8>> = elements_at(&list, batch.from, count).map(|e| e.to_vec()).collect();
    let debris = list.cut(batch.from, count);
    drop(list);
    discard(ctx.keys, debris);
    if batch.turns_round() {
        moved.reverse();
    }
    ctx.reply.array(moved.len());
    moved.iter().for_each(|element| ctx.reply.bulk(element));

    let mut list = ctx.keys.create::<List>(&destination)?;
    list.before_growth(limit, count, moved.iter().map(Vec::len).sum());
    match batch.to {
        End::Head => moved.iter().rev().for_each(|element| list.push(End::Head, element.as_slice())),
        End::Tail => moved.iter().for_each(|element| list.push(End::Tail, element.as_slice())),
    }
    drop(list);
    note(ctx.keys, &destination, push_event(batch.to));
    if let Some(mut list) = ctx.keys.write::<List>(&source)? {
        list.after_shrink(limit);
    }
    after_removal(ctx.keys, &source, event(batch.from), count);
    Ok(count)
}
