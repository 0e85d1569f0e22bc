//! The scripts that the server knows, by digest; shared by all threads, which compile them for themselves.
//!
//! Invariant: a thread that holds a script learns from the script itself that it has left the cache.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_utils::CachePadded;
use hashbrown::HashMap;
use martlet_base::sync::lock;
use martlet_protocol::request::OwnedArgs;
use martlet_script::{Engine, ScriptFlags};

/// SHA-1 of a script's source.
pub type Digest = [u8; 20];

/// Hexadecimal digits of a [`Digest`].
pub const DIGEST_DIGITS: usize = 40;

/// Scripts that only EVAL has brought, above which the one that was used least recently leaves.
const EVAL_SCRIPTS_MAX: usize = 500;

/// The digest that 40 hexadecimal digits stand for.
pub fn parse_digest(text: &[u8]) -> Option<Digest> {
    let digits: &[u8; DIGEST_DIGITS] = text.try_into().ok()?;
    let mut digest = Digest::default();
    let mut all = 0;
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [0, 1].map(|at| DIGITS[usize::from(pair[at])]);
        *byte = high << 4 | low & 15;
        all |= high | low;
    }
    (all & NO_DIGIT == 0).then_some(digest)
}

/// A bit that no digit has.
const NO_DIGIT: u8 = 0x80;

/// The value of a byte as a hexadecimal digit.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value as usize];
        digits[digit as usize] = value;
        digits[digit.to_ascii_uppercase() as usize] = value;
        value += 1;
    }
    digits
};

/// One script.
pub struct Script {
    /// Its digest, as 40 hexadecimal digits.
    pub name: String,
    /// Its source.
    pub source: Vec<u8>,
    /// The flags of its first line.
    pub flags: ScriptFlags,
    /// Length of that line, which is not Lua.
    pub first_line_len: usize,
    /// SCRIPT LOAD has brought it: it stays.
    is_loaded: AtomicBool,
    /// It has left the cache.
    is_gone: AtomicBool,
    /// Unix milliseconds.
    used_ms: AtomicI64,
    /// Which one in the cache it is, counted from the first: of those used last in one millisecond, the
    /// earlier one leaves.
    arrival: AtomicU64,
}

impl Script {
    /// A script that is in no cache yet.
    ///
    /// # Errors
    /// The fault of its first line.
    pub fn new(digest: &Digest, source: &[u8], now_ms: i64) -> Result<Script, Vec<u8>> {
        let (flags, first_line_len) = martlet_script::flags::parse_eval(source)?;
        Ok(Script {
            name: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            source: source.to_vec(),
            flags,
            first_line_len,
            is_loaded: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            used_ms: AtomicI64::new(now_ms),
            arrival: AtomicU64::new(0),
        })
    }

    /// What Lua compiles: lines keep their numbers.
    pub fn lua(&self) -> &[u8] {
        &self.source[self.first_line_len..]
    }

    /// Whether it has left the cache.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Notes that it is used; others' copies of the line are touched once a millisecond.
    #[inline]
    pub fn touch(&self, now_ms: i64) {
        if self.used_ms.load(Ordering::Relaxed) != now_ms {
            self.used_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Script>() + self.source.len() + self.name.len()
    }
}

/// A function that runs, as FUNCTION STATS names it.
#[derive(Clone)]
pub struct ShownFunction {
    /// Its name.
    pub name: String,
    /// What called it.
    pub request: OwnedArgs,
    /// A raw reading of the clock: when it began.
    pub began: u64,
}

/// The state of a thread's script, or function.
#[derive(Default)]
pub struct Running {
    state: AtomicU8,
    /// A function runs rather than a script.
    is_function: AtomicBool,
    /// Bytes of memory of the thread's states, by engine.
    vm_bytes: [AtomicUsize; 2],
    shown: Mutex<Option<ShownFunction>>,
}

const IDLE: u8 = 0;
const READING: u8 = 1;
const WRITING: u8 = 2;
const KILLED: u8 = 3;

impl Running {
    /// A script begins; it has changed nothing.
    pub fn begin(&self, engine: Engine) {
        self.is_function.store(engine == Engine::Functions, Ordering::Relaxed);
        self.state.store(READING, Ordering::Release);
    }

    /// Whether one runs.
    pub fn is_running(&self) -> bool {
        self.state.load(Ordering::Relaxed) != IDLE
    }

    /// It is about to change data; false if it has been killed.
    #[inline]
    pub fn write(&self) -> bool {
        let state = &self.state;
        state.load(Ordering::Relaxed) == WRITING
            || state.compare_exchange(READING, WRITING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether it changes data, or has.
    pub fn writes(&self) -> bool {
        self.state.load(Ordering::Acquire) == WRITING
    }

    /// Whether it is to end.
    pub fn is_killed(&self) -> bool {
        self.state.load(Ordering::Acquire) == KILLED
    }

    /// It has ended, and the thread's state takes so much memory.
    pub fn end(&self, engine: Engine, vm_bytes: usize) {
        self.state.store(IDLE, Ordering::Release);
        self.vm_bytes[engine as usize].store(vm_bytes, Ordering::Relaxed);
    }

    /// Names the function that runs, or says that it has ended.
    pub fn show(&self, function: Option<ShownFunction>) {
        *lock(&self.shown) = function;
    }

    fn engine(&self) -> Engine {
        if self.is_function.load(Ordering::Relaxed) { Engine::Functions } else { Engine::Eval }
    }
}

/// Why no script was killed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum NotKilled {
    /// None runs.
    Idle,
    /// It has changed data.
    Writing,
    /// The busy one is of the other engine.
    Other,
}

#[derive(Default)]
struct Scripts {
    by_digest: HashMap<Digest, Arc<Script>>,
    bytes: usize,
    /// Scripts that have ever been added.
    arrivals: u64,
}

impl Scripts {
    fn remove(&mut self, digest: &Digest) {
        if let Some(script) = self.by_digest.remove(digest) {
            self.bytes -= script.bytes();
            script.is_gone.store(true, Ordering::Release);
        }
    }

    /// Makes room for one more of EVAL's; whether one had to leave.
    fn evict(&mut self) -> bool {
        let of_eval = self.by_digest.iter().filter(|(_, script)| !script.is_loaded.load(Ordering::Relaxed));
        if of_eval.clone().count() < EVAL_SCRIPTS_MAX {
            return false;
        }
        let last_use = |script: &Script| {
            (script.used_ms.load(Ordering::Relaxed), script.arrival.load(Ordering::Relaxed))
        };
        let oldest = of_eval.min_by_key(|(_, script)| last_use(script));
        let Some(digest) = oldest.map(|(digest, _)| *digest) else { return false };
        self.remove(&digest);
        true
    }
}

/// Figures for INFO.
#[derive(Copy, Clone, Debug, Default)]
pub struct ScriptFigures {
    /// Scripts.
    pub count: usize,
    /// Bytes of their sources.
    pub bytes: usize,
    /// Bytes of all threads' states for scripts.
    pub vm_bytes: usize,
    /// Bytes of all threads' states for functions.
    pub function_vm_bytes: usize,
}

/// See the [module docs](self).
pub struct ScriptCache {
    scripts: Mutex<Scripts>,
    /// Rises with each flush: threads then create their states again.
    generation: AtomicU64,
    /// Scripts that had to leave.
    pub evicted: AtomicU64,
    /// By thread.
    running: Box<[CachePadded<Running>]>,
    /// Those that have run for longer than `busy-reply-threshold`, by engine.
    busy: [AtomicUsize; 2],
    /// SHUTDOWN NOSAVE waits: whatever runs is to end, also if it has changed data.
    pub is_ending: AtomicBool,
    /// DEBUG SET-DISABLE-DENY-SCRIPTS.
    pub allows_all: AtomicBool,
}

impl ScriptCache {
    /// A cache for `threads` threads.
    pub fn new(threads: usize) -> ScriptCache {
        ScriptCache {
            scripts: Mutex::default(),
            generation: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            running: (0..threads).map(|_| CachePadded::default()).collect(),
            busy: Default::default(),
            is_ending: AtomicBool::new(false),
            allows_all: AtomicBool::new(false),
        }
    }

    /// See [`Running`].
    #[inline]
    pub fn running(&self, thread: usize) -> &Running {
        &self.running[thread]
    }

    /// The engine of the busy script or function, if there is one.
    pub fn busy_engine(&self) -> Option<Engine> {
        let is_busy = |engine: &Engine| self.busy[*engine as usize].load(Ordering::Relaxed) > 0;
        [Engine::Eval, Engine::Functions].into_iter().find(is_busy)
    }

    /// The function that runs, of several the one that began first.
    pub fn shown_function(&self) -> Option<ShownFunction> {
        let shown = self.running.iter().filter_map(|running| lock(&running.shown).clone());
        shown.min_by_key(|function| function.began)
    }

    /// A script has become busy, or a busy one has ended. Its thread takes requests off the shortest path in
    /// that time.
    pub fn set_busy(&self, engine: Engine, is_busy: bool) {
        let busy = &self.busy[engine as usize];
        if is_busy {
            busy.fetch_add(1, Ordering::SeqCst);
        } else {
            busy.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// See the field.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The script of this digest.
    pub fn find(&self, digest: &Digest) -> Option<Arc<Script>> {
        lock(&self.scripts).by_digest.get(digest).cloned()
    }

    /// Adds a script that a thread has compiled; another thread may have been first. With `loaded` it stays.
    pub fn add(&self, digest: Digest, script: Arc<Script>, loaded: bool) -> Arc<Script> {
        let mut scripts = lock(&self.scripts);
        let known = scripts.by_digest.get(&digest).cloned();
        let script = known.unwrap_or_else(|| {
            if !loaded && scripts.evict() {
                self.evicted.fetch_add(1, Ordering::Relaxed);
            }
            scripts.bytes += script.bytes();
            scripts.arrivals += 1;
            script.arrival.store(scripts.arrivals, Ordering::Relaxed);
            scripts.by_digest.insert(digest, script.clone());
            script
        });
        script.is_loaded.fetch_or(loaded, Ordering::Relaxed);
        script
    }

    /// Forgets all scripts.
    pub fn flush(&self) {
        let mut scripts = lock(&self.scripts);
        for (_, script) in scripts.by_digest.drain() {
            script.is_gone.store(true, Ordering::Release);
        }
        scripts.bytes = 0;
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends this engine's script if it has changed nothing.
    ///
    /// # Errors
    /// There is none.
    pub fn kill(&self, engine: Engine) -> Result<(), NotKilled> {
        let is_other = self.busy_engine().is_some_and(|busy| busy != engine);
        let mut outcome = Err(if is_other { NotKilled::Other } else { NotKilled::Idle });
        for running in self.running.iter().filter(|running| running.engine() == engine) {
            let swap = running.state.compare_exchange(READING, KILLED, Ordering::AcqRel, Ordering::Acquire);
            match swap {
                Ok(_) => outcome = Ok(()),
                Err(WRITING) if outcome.is_err() => outcome = Err(NotKilled::Writing),
                Err(_) => {}
            }
        }
        outcome
    }

    /// See [`ScriptFigures`].
    pub fn figures(&self) -> ScriptFigures {
        let vm_bytes = |engine: Engine| {
            self.running.iter().map(|running| running.vm_bytes[engine as usize].load(Ordering::Relaxed)).sum()
        };
        let scripts = lock(&self.scripts);
        ScriptFigures {
            count: scripts.by_digest.len(),
            bytes: scripts.bytes,
            vm_bytes: vm_bytes(Engine::Eval),
            function_vm_bytes: vm_bytes(Engine::Functions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(number: u8, now_ms: i64) -> (Digest, Arc<Script>) {
        let digest = [number; 20];
        (digest, Arc::new(Script::new(&digest, b"return 1", now_ms).unwrap()))
    }

    #[test]
    fn digests_are_read_in_any_case() {
        assert_eq!(parse_digest(&[b'A'; 40]), Some([0xaa; 20]));
        assert_eq!(parse_digest(&[b'f'; 40]), Some([0xff; 20]));
        assert_eq!(parse_digest(&[b'g'; 40]), None);
        assert_eq!(parse_digest(b"ff"), None);
    }

    #[test]
    fn evals_scripts_leave_the_least_recently_used_first_and_loaded_ones_stay() {
        let cache = ScriptCache::new(1);
        let (loaded, first) = script(0, 0);
        cache.add(loaded, first, true);
        for number in 0..=EVAL_SCRIPTS_MAX as i64 {
            let mut digest = [1; 20];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            cache.add(digest, Arc::new(Script::new(&digest, b"return 1", number + 1).unwrap()), false);
        }
        assert_eq!(cache.evicted.load(Ordering::Relaxed), 1);
        let figures = cache.figures();
        assert_eq!(figures.count, EVAL_SCRIPTS_MAX + 1);
        let mut oldest = [1; 20];
        oldest[..8].copy_from_slice(&0i64.to_le_bytes());
        assert!(cache.find(&oldest).is_none() && cache.find(&loaded).is_some());
        // All were used in one millisecond: they leave in their order.
        let cache = ScriptCache::new(1);
        let digest_of = |number: usize| {
            let mut digest = [1; 20];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            digest
        };
        for number in 0..2 * EVAL_SCRIPTS_MAX {
            let digest = digest_of(number);
            cache.add(digest, Arc::new(Script::new(&digest, b"return 1", 1).unwrap()), false);
        }
        let stays = |number: usize| cache.find(&digest_of(number)).is_some();
        assert!((0..2 * EVAL_SCRIPTS_MAX).all(|number| stays(number) == (number >= EVAL_SCRIPTS_MAX)));
        let (loaded, first) = script(0, 0);
        cache.add(loaded, first, true);
        let held = cache.find(&loaded).unwrap();
        let before = cache.generation();
        cache.flush();
        assert!(held.is_gone() && cache.generation() > before && cache.figures().count == 0);
    }

    #[test]
    fn only_scripts_that_have_not_written_are_killed() {
        let cache = ScriptCache::new(2);
        assert_eq!(cache.kill(Engine::Eval), Err(NotKilled::Idle));
        cache.running(0).begin(Engine::Eval);
        assert!(cache.running(0).write() && cache.running(0).write());
        assert_eq!(cache.kill(Engine::Eval), Err(NotKilled::Writing));
        cache.running(1).begin(Engine::Eval);
        assert_eq!(cache.kill(Engine::Eval), Ok(()));
        assert!(cache.running(1).is_killed() && !cache.running(1).write() && !cache.running(0).is_killed());
        cache.running(1).end(Engine::Eval, 7);
        assert!(!cache.running(1).is_killed());
        assert_eq!(cache.figures().vm_bytes, 7);
        cache.running(1).begin(Engine::Functions);
        cache.running(0).end(Engine::Eval, 0);
        assert_eq!(cache.kill(Engine::Eval), Err(NotKilled::Idle));
        cache.set_busy(Engine::Functions, true);
        assert_eq!(cache.kill(Engine::Eval), Err(NotKilled::Other));
        assert_eq!(cache.kill(Engine::Functions), Ok(()));
        assert!(cache.running(1).is_killed());
    }
}
