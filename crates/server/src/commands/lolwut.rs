//! LOLWUT: drawings, each with a last line that names the version.

use martlet_base::random::Random;
use martlet_command::{Acl, Error, Flags, Group, Outcome, command};

use super::{Call, ServerCommand, ServerHandler};

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&LOLWUT];

static LOLWUT: ServerCommand = command("lolwut", -1, lolwut as ServerHandler)
    .flags(Flags::READONLY.with(Flags::FAST))
    .acl(Acl::NONE)
    .syntax("?version:i=VERSION")
    .doc(
        Group::Server,
        "5.0.0",
        "O(N) for a drawing of N characters",
        "Draws martlets and shows the version.",
    );

/// The heraldic martlet has no feet, since it never needs to land.
const MARTLET: &str = "        __\n  _____/ o>\n /  __   |\n<__/  \\__/\n    \\/\\/\n";
/// The largest drawing, in characters each way.
const SIDE_MAX: i64 = 1000;
/// Birds each way, at most.
const BIRDS_MAX: i64 = 200;
/// Dots of a character, across and down.
const DOTS: (usize, usize) = (2, 4);

fn lolwut(call: &mut Call<'_>) -> Outcome {
    let (mut rest, mut version) = (call.rest(1), 8);
    if rest.option("version", 1) {
        // Redis looks at 32 bits of it.
        version = rest.int()? as u32;
    }
    let number = |at: usize, default: i64, most: i64| -> Result<usize, Error> {
        let given = if call.argc() > at { call.int(at)? } else { default };
        Ok(given.clamp(1, most) as usize)
    };
    let drawing = match version {
        5 => {
            let (columns, across, down) =
                (number(3, 66, SIDE_MAX)?, number(4, 8, BIRDS_MAX)?, number(5, 12, BIRDS_MAX)?);
            flock(columns, across, down, &mut call.worker.keys.random)
        }
        6 => {
            let (columns, rows) = (number(3, 80, SIDE_MAX)?, number(4, 20, SIDE_MAX)?);
            night(columns, rows, &mut call.worker.keys.random)
        }
        8 => MARTLET.into(),
        _ => String::new(),
    };
    let gap = if drawing.is_empty() { "" } else { "\n" };
    let presentation = call.worker.presentation();
    let text = format!("{drawing}{gap}{} ver. {}\n", presentation.title(), presentation.version());
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Dots, black or white, that are written as Braille.
struct Canvas {
    columns: usize,
    /// A character's dots, line by line.
    cells: Vec<u8>,
}

impl Canvas {
    fn new(columns: usize, lines: usize) -> Canvas {
        Canvas { columns, cells: vec![0; columns * lines] }
    }

    /// Blackens a dot, if it is on the canvas.
    fn dot(&mut self, x: f64, y: f64) {
        // Unicode numbers the dots of a character down its columns, but for the lowest two.
        const BITS: [[u8; DOTS.0]; DOTS.1] = [[0, 3], [1, 4], [2, 5], [6, 7]];
        let (x, y) = (x.round() as usize, y.round() as usize);
        if x / DOTS.0 < self.columns
            && let Some(cell) = self.cells.get_mut(y / DOTS.1 * self.columns + x / DOTS.0)
        {
            *cell |= 1 << BITS[y % DOTS.1][x % DOTS.0];
        }
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let (width, height) = (to.0 - from.0, to.1 - from.1);
        let steps = width.abs().max(height.abs()).ceil().max(1.0) as usize;
        for step in 0..=steps {
            let part = step as f64 / steps as f64;
            self.dot(from.0 + width * part, from.1 + height * part);
        }
    }

    fn text(&self) -> String {
        let character = |cell: &u8| char::from_u32(0x2800 + u32::from(*cell)).unwrap_or(' ');
        let line = |cells: &[u8]| cells.iter().map(character).chain(['\n']).collect::<String>();
        self.cells.chunks(self.columns).map(line).collect()
    }
}

/// Martlets in flight, the lower the wilder; as large as Redis' squares are.
fn flock(columns: usize, across: usize, down: usize, random: &mut Random) -> String {
    let width = columns * DOTS.0;
    let margin = if width > 4 { 2 } else { 0 };
    let side = (width - 2 * margin) as f64 / across as f64;
    let lines = ((side * down as f64) as usize + 2 * margin).div_ceil(DOTS.1).clamp(1, SIDE_MAX as usize);
    let mut canvas = Canvas::new(columns, lines);
    for row in 0..down {
        let wildness = row as f64 / down as f64;
        let mut stray = |most: f64| (random.unit_f64() - 0.5) * wildness * most * side;
        for column in 0..across {
            let middle = |at: usize| margin as f64 + (at as f64 + 0.5) * side;
            let body = (middle(column) + stray(0.5), middle(row) + stray(0.5));
            for wing in [-0.4, 0.4] {
                let tip = (body.0 + wing * side, body.1 - 0.2 * side + stray(0.8));
                canvas.line(body, tip);
            }
        }
    }
    canvas.text()
}

/// Stars above hills.
fn night(columns: usize, rows: usize, random: &mut Random) -> String {
    let mut hill = rows / 3;
    let hills: Vec<usize> = (0..columns)
        .map(|_| {
            hill = (hill + random.below(3) as usize).saturating_sub(1).min(rows / 2);
            hill
        })
        .collect();
    let mut text = String::new();
    for height in (0..rows).rev() {
        for hill in &hills {
            text.push(match height {
                _ if height <= *hill => '█',
                _ if random.below(40) == 0 => '*',
                _ => ' ',
            });
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines, and characters of each.
    fn size(text: &str) -> (usize, usize) {
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
        (widths.len(), widths[0])
    }

    /// The sizes are those of Redis 8.0.6.
    #[test]
    fn sizes_follow_the_arguments() {
        let mut random = Random::seeded(1);
        for (columns, across, down, lines) in [
            (66, 8, 12, 49),
            (10, 2, 2, 5),
            (1000, 1, 1, 500),
            (1, 1, 1, 1),
            (20, 8, 200, 226),
            (20, 200, 200, 10),
        ] {
            assert_eq!(size(&flock(columns, across, down, &mut random)), (lines, columns));
        }
        assert_eq!(size(&flock(1000, 1, 200, &mut random)), (1000, 1000), "no drawing is larger");
        for (columns, rows) in [(80, 20), (10, 5), (1, 1), (1000, 1000)] {
            assert_eq!(size(&night(columns, rows, &mut random)), (rows, columns));
        }
    }

    #[test]
    fn a_canvas_has_eight_dots_a_character() {
        let mut canvas = Canvas::new(2, 1);
        canvas.line((0.0, 0.0), (0.0, 3.0));
        canvas.dot(3.0, 1.0);
        canvas.dot(4.0, 1.0);
        canvas.dot(0.0, 4.0);
        assert_eq!(canvas.text(), "⡇⠐\n");
    }
}
