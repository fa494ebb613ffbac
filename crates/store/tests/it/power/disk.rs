//! A disk that remembers what was synced. It is SQLite's own file layer with a note of every write; a power cut keeps what
//! was synced, and of the rest whatever it likes: some writes, parts of writes, in any order.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock};

use rusqlite::ffi;

/// Random numbers from a seed, so that a failure can be seen again.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}

#[derive(Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Clone, Default)]
struct Image {
    synced: Vec<u8>,
    since: Vec<Change>,
}

fn write(image: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if image.len() < at + bytes.len() {
        image.resize(at + bytes.len(), 0);
    }
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

impl Image {
    fn sync(&mut self) {
        for change in self.since.drain(..) {
            match change {
                Change::Write { at, bytes } => write(&mut self.synced, at, &bytes),
                Change::Truncate(length) => self.synced.resize(length, 0),
            }
        }
    }

    /// What is found after a power cut.
    fn cut(&self, dice: &mut Dice) -> Vec<u8> {
        let mut found = self.synced.clone();
        // All, nothing, or a part of it: each happens.
        let mode = dice.below(4);
        for change in &self.since {
            let kept = match mode {
                0 => false,
                1 => true,
                _ => dice.below(2) == 0,
            };
            match change {
                Change::Write { at, bytes } if kept => write(&mut found, *at, bytes),
                Change::Write { at, bytes } if mode == 3 && dice.below(2) == 0 => {
                    // Torn: whole sectors of the beginning or of the end.
                    let sectors = dice.below(bytes.len() as u64 / 512 + 1) as usize * 512;
                    if dice.below(2) == 0 {
                        write(&mut found, *at, &bytes[..sectors]);
                    } else {
                        write(&mut found, at + sectors, &bytes[sectors..]);
                    }
                }
                Change::Truncate(length) if kept => found.resize(*length, 0),
                Change::Write { .. } | Change::Truncate(_) => {}
            }
        }
        found
    }
}

static IMAGES: Mutex<BTreeMap<PathBuf, Image>> = Mutex::new(BTreeMap::new());
static REAL: OnceLock<usize> = OnceLock::new();
static SYNCS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

fn images() -> MutexGuard<'static, BTreeMap<PathBuf, Image>> {
    IMAGES.lock().unwrap()
}

/// How often anything was synced.
pub(super) fn syncs() -> u64 {
    SYNCS.load(std::sync::atomic::Ordering::Relaxed)
}

/// The power goes: `from` as it would be found is written to `to`. `acked` is asked first, while nothing moves.
pub(super) fn cut<T>(from: &Path, to: &Path, dice: &mut Dice, acked: impl FnOnce() -> T) -> T {
    let images = images();
    let acked = acked();
    for (path, image) in images.iter() {
        let Ok(inside) = path.strip_prefix(from) else { continue };
        let place = to.join(inside);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, image.cut(dice)).unwrap();
    }
    // The note of ends is never synced, so its last state is as good as any, and the hardest.
    if let Ok(ends) = std::fs::read(from.join("ends"))
        && dice.below(3) > 0
    {
        std::fs::write(to.join("ends"), ends).unwrap();
    }
    acked
}

/// Forgets a directory.
pub(super) fn forget(dir: &Path) {
    images().retain(|path, _| !path.starts_with(dir));
}

#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    path: *mut PathBuf,
}

/// Where the real file begins, after ours.
const REAL_AT: usize = size_of::<File>().next_multiple_of(16);

/// # Safety
/// `file` is one that `open` filled in.
unsafe fn real(file: *mut ffi::sqlite3_file) -> (*mut ffi::sqlite3_file, &'static ffi::sqlite3_io_methods) {
    // SAFETY: SQLite gave `REAL_AT` bytes and those of the real file in one piece, and `open` filled in its methods.
    unsafe {
        let inner = file.byte_add(REAL_AT);
        (inner, &*(*inner).pMethods)
    }
}

/// # Safety
/// `file` is one that `open` filled in and `close` did not see yet.
unsafe fn with_image(file: *mut ffi::sqlite3_file, work: impl FnOnce(&mut Image)) {
    // SAFETY: `open` put a live path there, or null for a file without a name.
    let path = unsafe { (*file.cast::<File>()).path.as_ref() };
    if let Some(path) = path {
        work(images().entry(path.clone()).or_default());
    }
}

fn real_vfs() -> *mut ffi::sqlite3_vfs {
    *REAL.get().unwrap() as *mut ffi::sqlite3_vfs
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a file of `szOsFile` bytes, which is ours and the real one after it.
    unsafe {
        let inner = file.byte_add(REAL_AT);
        let code = (*real_vfs()).xOpen.unwrap()(real_vfs(), name, inner, flags, out);
        (*file).pMethods = if (*inner).pMethods.is_null() { std::ptr::null() } else { &raw const METHODS };
        let ours = file.cast::<File>();
        (*ours).path = std::ptr::null_mut();
        if code == ffi::SQLITE_OK && !name.is_null() {
            let path = PathBuf::from(OsStr::from_bytes(CStr::from_ptr(name).to_bytes()));
            // What was there before was made durable by whoever made it.
            let found = std::fs::read(&path).unwrap_or_default();
            images().entry(path.clone()).or_insert_with(|| Image { synced: found, since: Vec::new() });
            (*ours).path = Box::into_raw(Box::new(path));
        }
        code
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the file was opened; the path is taken back once.
    unsafe {
        let path = std::mem::replace(&mut (*file.cast::<File>()).path, std::ptr::null_mut());
        if !path.is_null() {
            drop(Box::from_raw(path));
        }
        let (inner, methods) = real(file);
        methods.xClose.unwrap()(inner)
    }
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, to: *mut c_void, n: c_int, at: i64) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (inner, methods) = real(file);
        methods.xRead.unwrap()(inner, to, n, at)
    }
}

unsafe extern "C" fn write_to(file: *mut ffi::sqlite3_file, from: *const c_void, n: c_int, at: i64) -> c_int {
    // SAFETY: SQLite passes `n` readable bytes.
    unsafe {
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), n as usize).to_vec();
        with_image(file, |image| image.since.push(Change::Write { at: at as usize, bytes }));
        let (inner, methods) = real(file);
        methods.xWrite.unwrap()(inner, from, n, at)
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: i64) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        with_image(file, |image| image.since.push(Change::Truncate(length as usize)));
        let (inner, methods) = real(file);
        methods.xTruncate.unwrap()(inner, length)
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // The real sync is left out: this disk is the one that counts, and it is quicker.
    SYNCS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    // SAFETY: the file was opened.
    unsafe { with_image(file, Image::sync) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn size(file: *mut ffi::sqlite3_file, to: *mut i64) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (inner, methods) = real(file);
        methods.xFileSize.unwrap()(inner, to)
    }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (inner, methods) = real(file);
        methods.xLock.unwrap()(inner, level)
    }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (inner, methods) = real(file);
        methods.xUnlock.unwrap()(inner, level)
    }
}

unsafe extern "C" fn reserved(file: *mut ffi::sqlite3_file, to: *mut c_int) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (inner, methods) = real(file);
        methods.xCheckReservedLock.unwrap()(inner, to)
    }
}

unsafe extern "C" fn control(file: *mut ffi::sqlite3_file, what: c_int, with: *mut c_void) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (inner, methods) = real(file);
        methods.xFileControl.unwrap()(inner, what, with)
    }
}

unsafe extern "C" fn sector(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (inner, methods) = real(file);
        methods.xSectorSize.unwrap()(inner)
    }
}

unsafe extern "C" fn traits(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (inner, methods) = real(file);
        methods.xDeviceCharacteristics.unwrap()(inner)
    }
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, durable: c_int) -> c_int {
    // SAFETY: SQLite passes a name that ends with a zero.
    unsafe {
        images().remove(Path::new(OsStr::from_bytes(CStr::from_ptr(name).to_bytes())));
        (*real_vfs()).xDelete.unwrap()(real_vfs(), name, durable)
    }
}

/// The first version has no shared memory; the store does without.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write_to),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector),
    xDeviceCharacteristics: Some(traits),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// The same disk, under the journal.
struct Journal;

impl store::power::Disk for Journal {
    fn wrote(&self, path: &Path, at: u64, bytes: &[u8]) {
        let change = Change::Write { at: at as usize, bytes: bytes.to_vec() };
        images().entry(path.to_owned()).or_default().since.push(change);
    }

    fn synced(&self, path: &Path) {
        SYNCS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        images().entry(path.to_owned()).or_default().sync();
    }

    fn removed(&self, path: &Path) {
        images().remove(path);
    }

    fn renamed(&self, from: &Path, to: &Path) {
        let mut images = images();
        let image = images.remove(from).unwrap_or_default();
        images.insert(to.to_owned(), image);
    }
}

/// Puts this disk under every database and the journal of the process.
pub(super) fn install() {
    store::power::watch(Box::new(Journal));
    // SAFETY: the default VFS lives as long as the process, and so does the copy, which is never given back.
    unsafe {
        let default = ffi::sqlite3_vfs_find(std::ptr::null());
        REAL.set(default as usize).unwrap();
        let mut ours = Box::new(*default);
        ours.zName = c"remembering".as_ptr();
        ours.szOsFile += REAL_AT as c_int;
        ours.xOpen = Some(open);
        ours.xDelete = Some(delete);
        ours.pNext = std::ptr::null_mut();
        assert_eq!(ffi::sqlite3_vfs_register(Box::into_raw(ours), 1), ffi::SQLITE_OK);
    }
}

/// What was confirmed: for each session the length of each event's text.
pub(super) type Acked = HashMap<protocol::SessionId, BTreeMap<u64, usize>>;
