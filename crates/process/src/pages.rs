//! Pages of the program and its libraries that stay resident although only the start has used them.

use std::ffi::c_void;

/// A segment that is loaded, and its permission to be written (System V ABI, "Program Header").
const PT_LOAD: u32 = 1;
const PF_W: u32 = 2;

/// Unmaps the pages of the program's and the libraries' code and constants, and returns the bytes of address
/// space that they take. They are read-only pages of files: the kernel keeps them in its cache, and a page
/// that is used again is mapped again by a minor fault, with its neighbours. An idle server has a fraction of
/// those resident afterwards that its start has touched.
pub fn release_program_pages() -> usize {
    let mut released = 0usize;
    // SAFETY: the callback gets the pointer to `released`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(release_object), (&raw mut released).cast()) };
    released
}

/// Releases the read-only segments of one loaded object.
unsafe extern "C" fn release_object(info: *mut libc::dl_phdr_info, _: usize, released: *mut c_void) -> i32 {
    // SAFETY: the loader passes a description that is valid during the call; `dlpi_phdr` points to as many
    // headers as it says; `released` is the caller's.
    let (headers, base, released) = unsafe {
        let info = &*info;
        let headers = match info.dlpi_phdr.is_null() {
            true => &[][..],
            false => std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)),
        };
        (headers, info.dlpi_addr, &mut *released.cast::<usize>())
    };
    let page = rustix::param::page_size() as u64;
    for header in headers {
        if header.p_type != PT_LOAD || header.p_flags & PF_W != 0 {
            continue;
        }
        let from = (base + header.p_vaddr).next_multiple_of(page);
        let to = (base + header.p_vaddr + header.p_filesz) & !(page - 1);
        if from < to {
            // SAFETY: the pages are a mapping of a file that is never written (a segment without PF_W has no
            // relocations), so that they have the same content when they are touched again.
            let result =
                unsafe { libc::madvise(from as *mut c_void, (to - from) as usize, libc::MADV_DONTNEED) };
            *released += if result == 0 { (to - from) as usize } else { 0 };
        }
    }
    0
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    static CONSTANTS: [u64; 4096] = [7; 4096];

    fn resident_file_kilobytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).expect("RssFile");
        line.trim().trim_end_matches("kB").trim().parse().expect("a number")
    }

    #[test]
    fn pages_go_and_come_back_as_they_were() {
        assert_eq!(std::hint::black_box(&CONSTANTS).iter().sum::<u64>(), 7 * 4096);
        let before = resident_file_kilobytes();
        assert!(release_program_pages() > 100_000);
        let after = resident_file_kilobytes();
        assert!(after < before, "{before} to {after} KB");
        assert_eq!(std::hint::black_box(&CONSTANTS).iter().sum::<u64>(), 7 * 4096);
    }
}
