use std::path::Path;
use std::sync::mpsc;

use protocol::{Actor, EventBody};
use tokio::sync::oneshot::Receiver;

use super::*;
use crate::log::Draft;
use crate::logfile::LogFile;

fn draft() -> Encoded {
    let body = EventBody::MemoryChanged { text: "x".into(), remembered: None };
    Encoded::new(Draft { actor: Actor::system(), body }).unwrap()
}

fn append(epoch: u64) -> (Append, Receiver<Result<Vec<Event>, Error>>) {
    let (reply, result) = oneshot::channel();
    let append = Append { epoch: Epoch(epoch), drafts: vec![draft()], confirmed: Arc::default(), reply };
    (append, result)
}

fn layout(dir: &tempfile::TempDir) -> Layout {
    Layout::prepare(dir.path()).unwrap()
}

/// Asks the way everybody does.
fn ask<T>(writers: &Writers, session: SessionId, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, Error> {
    let (reply, result) = oneshot::channel();
    writers.send(session, job(reply));
    result.blocking_recv().unwrap()
}

#[test]
fn what_waits_is_one_sync() {
    let dir = tempfile::tempdir().unwrap();
    let (shared, pen) = Shared::open(&layout(&dir)).unwrap();
    let (orders, queue) = mpsc::channel();
    let filers = Filer::start_all(&shared, &orders).unwrap();
    let noter = Noter::start(Arc::clone(&shared.ends)).unwrap();
    let mut appender = Appender::new(shared.clone(), pen, Arc::clone(&filers), noter);
    let sessions = [SessionId::new(), SessionId::new()];
    for session in sessions {
        let (reply, made) = oneshot::channel();
        assert!(appender.handle(vec![Order::Job(session, Job::Create(reply))]));
        made.blocking_recv().unwrap().unwrap();
    }
    let mut results = Vec::new();
    let mut batch = Vec::new();
    for n in 0..10 {
        let (job, result) = append(1);
        batch.push(Order::Append(sessions[n % 2], job));
        results.push(result);
    }
    let (late, refused) = append(0);
    batch.insert(4, Order::Append(sessions[0], late));
    assert!(appender.handle(batch));
    // The filers say where the two logs end.
    let ends = (0..2).map(|_| queue.recv().unwrap()).collect();
    assert!(appender.handle(ends));
    assert_eq!(refused.blocking_recv().unwrap(), Err(Error::Fenced));
    for (n, result) in results.into_iter().enumerate() {
        assert_eq!(result.blocking_recv().unwrap().unwrap()[0].seq, n as u64 / 2 + 1);
    }
    assert_eq!(shared.counters.syncs.load(Ordering::Relaxed), 1);
    assert_eq!(shared.counters.appends.load(Ordering::Relaxed), 10);
}

#[test]
fn whoever_reads_or_takes_over_finds_what_was_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    let writers = Writers::start(&layout(&dir)).unwrap();
    let session = SessionId::new();
    let (mut epoch, mut last) = ask(&writers, session, Job::Create).unwrap();
    for _ in 0..20 {
        let (job, result) = append(epoch.0);
        writers.append(session, job);
        last += 1;
        assert_eq!(result.blocking_recv().unwrap().unwrap()[0].seq, last);
        let page = ask(&writers, session, |reply| Job::Read { after: 0, limit: 100, reply }).unwrap();
        assert_eq!((page.events.len() as u64, page.damage), (last, None));
        // Both at once: either may be first, and the second knows of it.
        let (job, result) = append(epoch.0);
        let (reply, opened) = oneshot::channel();
        writers.send(session, Job::Open { known: last, reply });
        writers.append(session, job);
        let (taken, end) = opened.blocking_recv().unwrap().unwrap();
        match result.blocking_recv().unwrap() {
            Ok(events) => assert_eq!(events[0].seq, end),
            Err(error) => assert_eq!((error, end), (Error::Fenced, last)),
        }
        assert!(taken > epoch);
        (epoch, last) = (taken, end);
    }
}

/// Events that a process committed before it was killed, and did not bring to the journal.
#[test]
fn a_log_with_events_that_the_journal_lacks_is_synced_before_it_goes_on() {
    let [killed, next, found] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let session = SessionId::new();
    let layouts = [&killed, &next, &found].map(layout);
    LogFile::create(&layouts[0], session).unwrap();
    let mut file = LogFile::open(&layouts[0], session).unwrap().with_journal().unwrap();
    let mut tail = Tail::new(file.end().unwrap());
    tail.place(&[draft()], &mut Default::default());
    assert!(file.catch_up(tail.take_rows()));
    file.settle().unwrap();
    let copy = |from: &Path, to: &Path| assert!(std::fs::copy(from, to).is_ok());
    for layout in &layouts[1..] {
        layout.make_session_dir(session).unwrap();
    }
    copy(&layouts[0].log(session), &layouts[1].log(session));
    copy(&layouts[0].write_ahead(session), &layouts[1].write_ahead(session));

    let killed_again = Writers::start(&layouts[1]).unwrap();
    let (job, result) = append(1);
    killed_again.append(session, job);
    assert_eq!(result.blocking_recv().unwrap().unwrap()[0].seq, 2);
    // The power goes: what was not synced is lost.
    copy(&layouts[1].log(session), &layouts[2].log(session));
    for entry in std::fs::read_dir(layouts[1].journal()).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &layouts[2].journal().join(entry.file_name()));
    }
    let last = Writers::start(&layouts[2]).unwrap();
    let page = ask(&last, session, |reply| Job::Read { after: 0, limit: 10, reply }).unwrap();
    assert_eq!((page.events.len(), page.damage), (2, None));
}

#[test]
fn the_file_that_was_not_used_for_longest_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (shared, _pen) = Shared::open(&layout(&dir)).unwrap();
    let (orders, queue) = mpsc::channel();
    let mut filer = Filer::new(shared, orders, 2);
    let [a, b, c] = [SessionId::new(), SessionId::new(), SessionId::new()];
    for session in [a, b] {
        filer.handle(session, Task::Do(Job::Create(oneshot::channel().0)));
    }
    filer.handle(a, Task::End);
    filer.handle(c, Task::Do(Job::Create(oneshot::channel().0)));
    assert_eq!(filer.opened(), [a, c].into());
    filer.handle(b, Task::End);
    assert_eq!(filer.opened(), [b, c].into(), "it is opened again when it is needed");
    let ends = queue.try_iter().map(|order| match order {
        Order::End(session, end) => (session, end.unwrap().seq),
        _ => panic!("nothing else was asked for"),
    });
    assert_eq!(ends.collect::<Vec<_>>(), [(a, 0), (b, 0)]);
}

/// Rows on their way to a file that is not open are no loss of it.
#[test]
fn rows_reach_a_file_that_was_closed_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let (shared, _pen) = Shared::open(&layout(&dir)).unwrap();
    let (orders, queue) = mpsc::channel();
    let mut filer = Filer::new(shared.clone(), orders, 1);
    let [a, b] = [SessionId::new(), SessionId::new()];
    let read = |filer: &mut Filer| {
        let (reply, page) = oneshot::channel();
        filer.handle(a, Task::Do(Job::Read { after: 0, limit: 10, reply }));
        let page = page.blocking_recv().unwrap().unwrap();
        (page.events.len(), page.damage)
    };
    filer.handle(a, Task::Do(Job::Create(oneshot::channel().0)));
    filer.handle(a, Task::End);
    let Ok(Order::End(_, Ok(end))) = queue.recv() else { panic!("it does not say where it ends") };
    filer.handle(b, Task::Do(Job::Create(oneshot::channel().0)));
    assert_eq!(filer.opened(), [b].into());
    let mut tail = Tail::new(end);
    tail.place(&[draft()], &mut Default::default());
    shared.ends.note_later([(a, 1)]);
    shared.ends.note_all();
    // Somebody asked before the event was confirmed.
    assert_eq!(read(&mut filer), (0, None));
    filer.handle(b, Task::End);
    let rows = tail.take_rows();
    filer.handle(a, Task::File(Filing { rows, bytes: 1, unsynced: false }));
    assert_eq!(read(&mut filer), (1, None));
    assert!(queue.try_iter().any(|order| matches!(order, Order::Filed(session, 1, Ok(())) if session == a)));
    // Rows that do not follow on what the file has are not lost in silence.
    tail.place(&[draft()], &mut Default::default());
    drop(tail.take_rows());
    tail.place(&[draft()], &mut Default::default());
    filer.handle(a, Task::File(Filing { rows: tail.take_rows(), bytes: 1, unsynced: false }));
    let told: Vec<_> = queue.try_iter().collect();
    assert!(told.iter().any(|order| matches!(order, Order::Filed(_, 1, Err(Error::Damaged { .. })))));
    assert!(told.iter().any(|order| matches!(order, Order::Damaged(session) if *session == a)));
}
