use std::fs;

use super::*;

/// An entry with one row; its texts and its checksum are its number.
fn entries(session: SessionId, seq: u64) -> Entries {
    let text = seq.to_string();
    let mut entries = Entries::default();
    entries.rows_of(session, 1);
    entries.row(&NewRow { seq, at: 0, hash: seq, texts: [&text; 4] });
    entries
}

fn write(pen: &mut Pen, entries: &Entries) {
    pen.reserve(entries.bytes().len()).unwrap();
    pen.commit(entries).unwrap();
}

fn open(dir: &Path) -> (Arc<Journal>, Pen) {
    Journal::open(dir).unwrap()
}

fn found(dir: &Path) -> Arc<Journal> {
    open(dir).0
}

fn seqs(journal: &Journal, session: SessionId) -> Vec<u64> {
    journal.found(session).iter().map(|(row, hash)| row.seq * u64::from(row.seq == *hash)).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    segment::list(dir).unwrap().0.into_iter().map(|(_, path)| path).collect()
}

#[test]
fn what_was_written_is_found_up_to_a_frame_that_is_torn() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = [SessionId::new(), SessionId::new()];
    let (_, mut pen) = open(dir.path());
    for seq in 1..=3 {
        write(&mut pen, &entries(a, seq));
        write(&mut pen, &entries(b, seq * 10));
    }
    let whole = pen.current.as_ref().unwrap().segment.length() as usize;
    let path = &files(dir.path())[0];
    let bytes = fs::read(path).unwrap();
    assert!(bytes.len() > whole, "room was taken in advance");
    let last = segment::HEADER + entries(b, 30).bytes().len();
    for kept in whole - last..=whole {
        for rest in [&bytes[kept..kept], &[0; 100], &[0xff; 100]] {
            fs::write(path, [&bytes[..kept], rest].concat()).unwrap();
            let journal = found(dir.path());
            assert_eq!(seqs(&journal, a), [1, 2, 3]);
            assert_eq!(seqs(&journal, b), if kept == whole { vec![10, 20, 30] } else { vec![10, 20] });
            assert_eq!(journal.found(a).len(), 0, "it is handed out once");
        }
    }
    for place in whole - last..whole {
        let mut flipped = bytes.clone();
        flipped[place] ^= 0x10;
        fs::write(path, flipped).unwrap();
        assert_eq!(seqs(&found(dir.path()), b), [10, 20], "byte {place}");
    }
}

#[test]
fn a_damaged_frame_is_missed_and_those_after_it_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = [SessionId::new(), SessionId::new()];
    let (_, mut pen) = open(dir.path());
    write(&mut pen, &entries(b, 1));
    let begin = pen.current.as_ref().unwrap().segment.length() as usize;
    write(&mut pen, &entries(a, 1));
    let end = pen.current.as_ref().unwrap().segment.length() as usize;
    write(&mut pen, &entries(b, 2));
    write(&mut pen, &entries(a, 2));
    let path = &files(dir.path())[0];
    let bytes = fs::read(path).unwrap();
    for place in begin..end {
        let mut flipped = bytes.clone();
        flipped[place] ^= 0x10;
        fs::write(path, flipped).unwrap();
        let journal = found(dir.path());
        assert_eq!(seqs(&journal, b), [1, 2], "byte {place}");
        assert_eq!(seqs(&journal, a), [2], "byte {place}: that the first is missing is for the log to find");
    }
}

#[test]
fn another_process_goes_on_in_a_segment_of_its_own_until_the_old_ones_are_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let session = SessionId::new();
    write(&mut open(dir.path()).1, &entries(session, 1));
    let (journal, mut pen) = open(dir.path());
    write(&mut pen, &entries(session, 2));
    drop(pen);
    journal.clear().unwrap();
    assert_eq!(files(dir.path()).len(), 2, "nobody looked at what was there before");
    let (journal, mut pen) = open(dir.path());
    assert_eq!(seqs(&journal, session), [1, 2]);
    while let Some(old) = journal.oldest() {
        assert_eq!(old.sessions, HashSet::from([session]));
        journal.let_go(&old).unwrap();
    }
    write(&mut pen, &entries(session, 3));
    drop(pen);
    journal.clear().unwrap();
    assert_eq!(files(dir.path()), [] as [PathBuf; 0]);
}

#[test]
fn what_was_forgotten_does_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = [SessionId::new(), SessionId::new()];
    let (_, mut pen) = open(dir.path());
    write(&mut pen, &entries(a, 1));
    write(&mut pen, &entries(b, 1));
    pen.forget(a).unwrap();
    write(&mut pen, &entries(a, 7));
    let journal = found(dir.path());
    assert_eq!((seqs(&journal, a), seqs(&journal, b)), (vec![7], vec![1]));
}

#[test]
fn what_could_not_be_brought_into_a_log_is_found_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let session = SessionId::new();
    let (_, mut pen) = open(dir.path());
    (1..=3).for_each(|seq| write(&mut pen, &entries(session, seq)));
    let journal = found(dir.path());
    let later = journal.found(session).split_off(2);
    journal.keep(session, later);
    assert!(journal.has_found(session));
    assert_eq!(seqs(&journal, session), [3]);
    assert!(!journal.has_found(session));
}

#[test]
fn a_failure_is_told_and_the_next_one_gets_a_new_segment() {
    let dir = tempfile::tempdir().unwrap();
    let session = SessionId::new();
    let place = dir.path().join("journal");
    fs::create_dir(&place).unwrap();
    let (journal, mut pen) = open(&place);
    fs::remove_dir(&place).unwrap();
    assert!(pen.reserve(10).is_err());
    assert!(pen.commit(&entries(session, 9)).is_err());
    fs::create_dir(&place).unwrap();
    write(&mut pen, &entries(session, 1));
    pen.retire();
    write(&mut pen, &entries(session, 2));
    assert_eq!(journal.oldest().unwrap().sessions, HashSet::from([session]));
    assert_eq!(seqs(&found(&place), session), [1, 2]);
}

/// Has a journal write until it has let go of a few segments; gives the number of the last row.
fn wear(journal: &Journal, pen: &mut Pen, session: SessionId, mut seq: u64, segments: u64) -> u64 {
    let last = journal.state().next + segments;
    let text = "x".repeat(1 << 20);
    while journal.state().next < last {
        seq += 1;
        let mut entries = Entries::default();
        entries.rows_of(session, 1);
        entries.row(&NewRow { seq, at: 0, hash: seq, texts: [&text; 4] });
        write(pen, &entries);
        journal.make_spares().unwrap();
        while let Some(old) = journal.oldest() {
            journal.let_go(&old).unwrap();
        }
    }
    seq
}

#[test]
fn segments_are_written_over_and_what_was_in_them_is_not_found() {
    let dir = tempfile::tempdir().unwrap();
    let session = SessionId::new();
    let (journal, mut pen) = open(dir.path());
    let last = wear(&journal, &mut pen, session, 0, 9);
    let there = || fs::read_dir(dir.path()).unwrap().count();
    assert!((2..=3).contains(&there()), "one is written to, and a few are spare: {}", there());
    assert!(pen.current.as_ref().unwrap().segment.is_reused());
    write(&mut pen, &entries(session, last + 1));
    drop(pen);
    // What the file had before is still behind what was written now.
    let (journal, mut pen) = open(dir.path());
    let seqs: Vec<u64> = journal.found(session).iter().map(|(row, _)| row.seq).collect();
    let expected: Vec<u64> = (last + 2 - seqs.len() as u64..=last + 1).collect();
    assert_eq!(seqs, expected, "only the end that was not let go");
    assert!(seqs.len() < 9, "{seqs:?}");
    // Nor is it found under the numbers of another process.
    while let Some(old) = journal.oldest() {
        journal.let_go(&old).unwrap();
    }
    let (before, spares) = {
        let state = journal.state();
        (state.next, state.spares.len())
    };
    assert_eq!(spares, 2);
    write(&mut pen, &entries(session, 1));
    assert_eq!(files(dir.path()).len(), 1);
    assert!(journal.state().next > before);
    assert_eq!(found(dir.path()).found(session).len(), 1);
}

#[test]
fn a_spare_that_cannot_be_used_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let session = SessionId::new();
    let (journal, mut pen) = open(dir.path());
    wear(&journal, &mut pen, session, 0, 4);
    for spare in &journal.state().spares {
        fs::remove_file(spare).unwrap();
    }
    pen.retire();
    write(&mut pen, &entries(session, 99));
    assert!(!pen.current.as_ref().unwrap().segment.is_reused());
    assert_eq!(found(dir.path()).found(session).last().unwrap().0.seq, 99);
}
