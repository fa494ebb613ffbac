use super::*;
use crate::log::Draft;
use protocol::{Actor, EventBody};
use std::path::Path;
use tokio::sync::oneshot::Receiver;

fn writer(dir: &tempfile::TempDir, capacity: usize) -> Writer {
    Writer::new(Shared::open(&Layout::prepare(dir.path()).unwrap()).unwrap(), capacity)
}

fn append(epoch: u64) -> (Job, Receiver<Result<Vec<Event>, Error>>) {
    let body = EventBody::MemoryChanged { text: "x".into() };
    let draft = Encoded::new(Draft { actor: Actor::system(), body }).unwrap();
    let (reply, result) = oneshot::channel();
    (
        Job::Append(Append { epoch: Epoch(epoch), drafts: vec![draft], last_seq: Arc::default(), reply }),
        result,
    )
}

#[test]
fn what_waits_for_one_session_is_one_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(&dir, 8);
    let sessions = [SessionId::new(), SessionId::new()];
    for session in sessions {
        writer.handle(vec![(session, Job::Create(oneshot::channel().0))]);
    }
    let mut results = Vec::new();
    let mut batch = Vec::new();
    for n in 0..10 {
        let (job, result) = append(1);
        batch.push((sessions[n % 2], job));
        results.push(result);
    }
    let (late, refused) = append(0);
    batch.insert(4, (sessions[0], late));
    writer.handle(batch);
    assert_eq!(refused.blocking_recv().unwrap(), Err(Error::Fenced));
    for (n, result) in results.into_iter().enumerate() {
        assert_eq!(result.blocking_recv().unwrap().unwrap()[0].seq, n as u64 / 2 + 1);
    }
    assert_eq!(writer.shared.counters.transactions.load(Ordering::Relaxed), 2);
    assert_eq!(writer.shared.counters.appends.load(Ordering::Relaxed), 10);
}

/// Events that a process committed before it was killed, and did not bring to the journal.
#[test]
fn a_log_with_events_that_the_journal_lacks_is_synced_before_it_goes_on() {
    let [killed, next, found] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let session = SessionId::new();
    let layouts = [&killed, &next, &found].map(|dir| Layout::prepare(dir.path()).unwrap());
    LogFile::create(&layouts[0], session).unwrap();
    let mut file = LogFile::open(&layouts[0], session).unwrap().with_journal().unwrap();
    let body = EventBody::MemoryChanged { text: "x".into() };
    let draft = Encoded::new(Draft { actor: Actor::system(), body }).unwrap();
    file.append([&draft].into_iter(), &mut Entries::default()).unwrap();
    file.settle().unwrap();
    let copy = |from: &Path, to: &Path| assert!(std::fs::copy(from, to).is_ok());
    for layout in &layouts[1..] {
        layout.make_session_dir(session).unwrap();
    }
    copy(&layouts[0].log(session), &layouts[1].log(session));
    copy(&layouts[0].write_ahead(session), &layouts[1].write_ahead(session));

    let mut killed_again = writer(&next, 2);
    let (job, result) = append(1);
    killed_again.handle(vec![(session, job)]);
    assert_eq!(result.blocking_recv().unwrap().unwrap()[0].seq, 2);
    // The power goes: what was not synced is lost.
    copy(&layouts[1].log(session), &layouts[2].log(session));
    for entry in std::fs::read_dir(layouts[1].journal()).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &layouts[2].journal().join(entry.file_name()));
    }
    let mut last = writer(&found, 2);
    let (reply, page) = oneshot::channel();
    last.handle(vec![(session, Job::Read { after: 0, limit: 10, reply })]);
    let page = page.blocking_recv().unwrap().unwrap();
    assert_eq!((page.events.len(), page.damage), (2, None));
}

#[test]
fn the_file_that_was_not_used_for_longest_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(&dir, 2);
    let [a, b, c] = [SessionId::new(), SessionId::new(), SessionId::new()];
    for session in [a, b] {
        writer.handle(vec![(session, Job::Create(oneshot::channel().0))]);
    }
    writer.handle(vec![(a, append(1).0)]);
    writer.handle(vec![(c, Job::Create(oneshot::channel().0))]);
    assert!(writer.open.contains_key(&a) && !writer.open.contains_key(&b));
    let (job, result) = append(1);
    writer.handle(vec![(b, job)]);
    assert_eq!(result.blocking_recv().unwrap().unwrap()[0].seq, 1, "it is opened again when it is needed");
    assert_eq!(writer.open.len(), 2);
}
