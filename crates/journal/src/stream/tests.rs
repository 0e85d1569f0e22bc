//! The stream of a journal: each of several readers reads the same commands, and places of the ring, the
//! stream and the file are each other's.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::journal::{Follower, Journal};
use crate::record::{REPLICAS, encode};

fn command(words: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, words.iter().map(|word| word.as_bytes()));
    out
}

fn journal() -> Journal {
    let journal = Journal::default();
    journal.open().unwrap();
    journal.follow(Follower::Replicas, true);
    journal
}

/// All that there is for the reader.
fn read(reader: &mut Reader<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(chunk) = reader.next().unwrap() {
        all.extend_from_slice(&chunk);
        reader.advance(chunk.len());
    }
    all
}

#[test]
fn each_reader_gets_what_is_for_it() {
    let journal = journal();
    let mut file = journal.attach(Audience::File, None, None).unwrap();
    let mut replica = journal.attach(Audience::Replicas, None, None).unwrap();
    let (set, ping) = (command(&["SET", "k", "1"]), command(&["PING"]));
    journal.note_time(Some(7));
    journal.append(3, &set);
    journal.append(REPLICAS, &ping);
    let middle = journal.append(3, &set);
    assert!(journal.pump(middle));
    assert_eq!(journal.place_of(middle), Some(journal.stream_end()));
    // A reader that begins here knows no database, and the file no time.
    let cut = journal.cut();
    let end = journal.append(3, &set);
    assert_eq!(journal.place_of(end), None, "not yet");
    assert!(journal.pump(end));
    let (select, time) = (command(&["SELECT", "3"]), b"#TS:7\r\n".to_vec());
    let first = [&select[..], &set, &ping, &set].concat();
    let second = [&select[..], &set].concat();
    assert_eq!(read(&mut replica), [&first[..], &second].concat());
    assert_eq!(read(&mut file), [&time[..], &select, &set, &set, &time, &second].concat());
    let place = journal.place_of(cut.position).unwrap();
    assert_eq!(
        place,
        Place { offset: first.len() as u64, file_offset: (first.len() - ping.len() + time.len()) as u64 }
    );
    assert_eq!((file.position(), replica.position(), file.behind()), (end, end, 0));
    assert_eq!(replica.at(), journal.stream_end().offset);
}

#[test]
fn whoever_comes_back_goes_on_where_the_backlog_reaches() {
    let journal = journal();
    journal.set_backlog(1 << 20);
    let set = command(&["SET", "k", &"x".repeat(100)]);
    let mut all = command(&["SELECT", "0"]);
    for _ in 0..2000 {
        all.extend_from_slice(&set);
        journal.append(0, &set);
    }
    assert!(journal.pump(journal.end()));
    for from in [0, 23, 1000, all.len() - 1, all.len()] {
        let mut replica = journal.attach(Audience::Replicas, Some(from as u64), Some(0)).unwrap();
        assert_eq!(read(&mut replica), all[from..]);
    }
    assert!(journal.attach(Audience::Replicas, Some(all.len() as u64 + 1), None).is_err());
}

/// A file that is not read keeps only a limited number of commands waiting, and then records.
#[test]
fn a_reader_that_may_not_lose_anything_bounds_what_is_made() {
    let journal = journal();
    let mut file = journal.attach(Audience::File, None, None).unwrap();
    let set = command(&["SET", "k", &"x".repeat(60_000)]);
    for _ in 0..600 {
        journal.append(0, &set);
    }
    assert!(!journal.pump(journal.end()));
    assert!((16 << 20..17 << 20).contains(&file.behind()), "{}", file.behind());
    let mut bytes = 0;
    while !journal.pump(journal.end()) || file.behind() > 0 {
        bytes += read(&mut file).len();
    }
    assert_eq!(bytes, 600 * set.len() + command(&["SELECT", "0"]).len());
}

/// Threads append, others take records out and read, and some come and go.
#[test]
fn readers_of_other_threads_read_one_order() {
    const EACH: usize = 5000;
    let journal = &journal();
    journal.set_backlog(64 << 20);
    let is_done = &AtomicBool::new(false);
    let streams: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer: u32| {
                scope.spawn(move || {
                    for i in 0..EACH {
                        journal.append(writer, &command(&["SET", "k", &i.to_string()]));
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let mut reader = journal.attach(Audience::Replicas, Some(0), None).unwrap();
                scope.spawn(move || {
                    let mut all = Vec::new();
                    loop {
                        let was_done = is_done.load(Ordering::SeqCst);
                        let has_all = journal.pump(journal.end());
                        let more = read(&mut reader);
                        all.extend_from_slice(&more);
                        if was_done && has_all && more.is_empty() {
                            return all;
                        }
                        // One comes back where it was.
                        let at = reader.at();
                        reader = journal.attach(Audience::Replicas, Some(at), None).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_done.store(true, Ordering::SeqCst);
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    assert!(streams[0] == streams[1] && streams[0] == streams[2]);
    assert_eq!(streams[0].windows(3).filter(|word| word == b"SET").count(), 2 * EACH);
    assert_eq!(streams[0].len() as u64, journal.stream_end().offset);
}

#[test]
fn what_another_server_says_goes_to_replicas_and_effects_to_the_file() {
    let journal = journal();
    let mut file = journal.attach(Audience::File, None, None).unwrap();
    let replica = journal.attach(Audience::Replicas, None, None).unwrap();
    let set = command(&["SET", "k", "1"]);
    let select = command(&["SELECT", "0"]);
    journal.append(0, &set);
    // The change waits in the ring behind earlier records.
    let cut = journal.relay(true, Some(1_000));
    journal.append(0, &set);
    journal.append(REPLICAS, b"anything");
    assert!(journal.pump(cut.position));
    assert_eq!(journal.place_of(cut.position).unwrap().offset, 1_000);
    assert_eq!(replica.next().err(), Some(FellBehind), "its offsets have ended");
    assert_eq!(journal.attach(Audience::Replicas, Some(999), None).err(), Some(FellBehind));
    let mut replica = journal.attach(Audience::Replicas, Some(1_000), None).unwrap();
    assert!(journal.pump(journal.end()));
    assert_eq!(read(&mut replica), b"anything");
    assert_eq!(read(&mut file), [&select[..], &set, &select, &set].concat());
    assert_eq!(journal.backlog_offsets().end, 1_008);
    // Replicas get its own effects again, at the next offsets.
    journal.relay(false, None);
    let end = journal.append(0, &set);
    assert!(journal.pump(end));
    assert_eq!(read(&mut replica), [&select[..], &set].concat());
    assert_eq!(replica.at(), 1_008 + (select.len() + set.len()) as u64);
}
