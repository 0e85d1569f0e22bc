//! Functions of the script as values, and their upvalues.

use crate::machine::{Closure, Machine, Run, Upvalue};
use crate::program::Capture;
use crate::stop::{Reason, Stop};
use crate::value::Value;

/// Functions that become values.
const CLOSURES_MAX: usize = 1 << 16;

impl Run<'_> {
    fn cell(&self, upvalue: u8) -> usize {
        let first = self.machine.closures[self.closure as usize].first as usize;
        self.machine.captured[first + usize::from(upvalue)] as usize
    }

    pub fn upvalue(&self, upvalue: u8) -> Value {
        match self.machine.upvalues[self.cell(upvalue)] {
            Upvalue::Open(place) => self.machine.stack[place as usize],
            Upvalue::Closed(value) => value,
        }
    }

    pub fn set_upvalue(&mut self, upvalue: u8, value: Value) {
        let cell = self.cell(upvalue);
        match &mut self.machine.upvalues[cell] {
            Upvalue::Open(place) => self.machine.stack[*place as usize] = value,
            Upvalue::Closed(closed) => *closed = value,
        }
    }

    pub fn make_closure(&mut self, a: u8, site: u16) -> Result<(), Stop> {
        if self.machine.closures.len() >= CLOSURES_MAX {
            return Err(Stop::Leave(Reason::Memory));
        }
        let site = &self.function.closures[usize::from(site)];
        let first = self.machine.captured.len() as u32;
        for capture in &site.captures {
            let cell = match capture {
                Capture::Upvalue(upvalue) => self.cell(*upvalue) as u32,
                Capture::Register(register) => self.open_cell(self.base + usize::from(*register)),
            };
            self.machine.captured.push(cell);
        }
        let number = self.machine.closures.len() as u32;
        self.machine.closures.push(Closure { function: site.function, first });
        self.set(a, Value::Closure(number));
        self.pc += site.captures.len();
        Ok(())
    }

    /// The upvalue of a register, which closures share.
    fn open_cell(&mut self, place: usize) -> u32 {
        let machine = &mut *self.machine;
        let is_of = |cell: &&u32| matches!(machine.upvalues[**cell as usize], Upvalue::Open(open) if open as usize == place);
        if let Some(cell) = machine.open.iter().find(is_of) {
            return *cell;
        }
        let cell = machine.upvalues.len() as u32;
        machine.upvalues.push(Upvalue::Open(place as u32));
        machine.open.push(cell);
        cell
    }

    /// Registers from this place on are given up: their upvalues get values of their own.
    pub fn close(&mut self, from: usize) {
        let Machine { open, upvalues, stack, .. } = &mut *self.machine;
        open.retain(|cell| {
            let upvalue = &mut upvalues[*cell as usize];
            match *upvalue {
                Upvalue::Open(place) if place as usize >= from => {
                    *upvalue = Upvalue::Closed(stack[place as usize]);
                    false
                }
                _ => true,
            }
        });
    }
}
