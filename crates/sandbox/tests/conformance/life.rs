//! How sandboxes begin, are found again, and end.

use protocol::SessionId;
use sandbox::{Error, Life, Limits, Owner, Spec, Stack, State};

use super::{Harness, World, layer, run, sh, until};

pub async fn a_sandbox_outlives_its_driver_and_is_found_again<H: Harness>() {
    let world = World::<H>::new();
    let first = world.create(&Stack::host(), Life::Own).await;
    sh(&*first, "echo kept > /workspace/x").await;
    world.driver.save(first.id(), &layer("one"), sandbox::Save::Stop { without: &[] }).await.unwrap();
    let stack = Stack::host().with(layer("one"));
    let sandbox = world.create(&stack, Life::Own).await;
    let id = sandbox.id();
    drop(sandbox);
    let again = world.harness.open();
    let sandbox = again.adopt(id).await.unwrap();
    assert_eq!(sandbox.stack(), &stack);
    assert_eq!(sh(&*sandbox, "cat /workspace/x").await, "kept");
    assert!(sandbox.ended().await.is_none());
    again.remove(id).await.unwrap();
    assert!(sandbox.ended().await.is_some());
    assert!(matches!(again.adopt(id).await, Err(Error::NotFound(_))));
    world.close().await;
}

pub async fn a_list_tells_owner_stack_and_state<H: Harness>() {
    let world = World::<H>::new();
    let pool = Owner::Pool { environment: "shop".to_owned(), image: "key".to_owned() };
    let mut ids = Vec::new();
    for owner in [Owner::OneOff, pool.clone()] {
        let spec = Spec::new(Stack::host(), Life::Own, owner);
        ids.push(world.driver.create(&spec).await.unwrap().id());
    }
    let list = world.driver.list().await.unwrap();
    assert_eq!(list.iter().map(|info| info.id).collect::<Vec<_>>(), ids, "oldest first");
    assert!(list.iter().all(|info| info.state == State::Running && info.stack == Some(Stack::host())));
    assert_eq!(list[1].owner, Some(pool));
    let session = Owner::Session(SessionId::new());
    world.driver.give(ids[1], &session).await.unwrap();
    assert_eq!(world.harness.open().list().await.unwrap()[1].owner, Some(session.clone()));
    world.driver.remove(ids[1]).await.unwrap();
    assert!(matches!(world.driver.give(ids[1], &session).await, Err(Error::NotFound(_))));
    world.close().await;
}

pub async fn removal_can_be_repeated<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    sh(&*sandbox, "mkdir closed && touch closed/x && chmod 0 closed; (setsid sleep 1000 &)").await;
    for _ in 0..2 {
        world.driver.remove(sandbox.id()).await.unwrap();
        assert_eq!(world.harness.traces(sandbox.id()), Vec::<String>::new());
    }
    let (one, other) = tokio::join!(world.driver.remove(sandbox.id()), world.driver.remove(sandbox.id()));
    one.and(other).unwrap();
    world.driver.remove_layer(&layer("never-was")).await.unwrap();
    world.close().await;
}

pub async fn a_tied_sandbox_goes_with_its_owner<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Tied).await;
    let id = sandbox.id();
    sh(&*sandbox, "(setsid sleep 1000 &)").await;
    drop(sandbox);
    until("every trace to be gone", || world.harness.traces(id).is_empty()).await;
    for _ in 0..1000 {
        if world.driver.list().await.unwrap().is_empty() {
            return world.close().await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it is still there");
}

pub async fn twenty_start_at_once<H: Harness>() {
    let world = World::<H>::new();
    let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
    let starts = (0..20).map(|number: u32| {
        let (world, limits) = (&world, limits.clone());
        async move {
            let sandbox = world.create_with(&Stack::host(), Life::Own, limits).await;
            let text = sh(&*sandbox, &format!("echo {number} > /workspace/own; cat /workspace/*")).await;
            assert_eq!(text, number.to_string());
            sandbox.id()
        }
    });
    let ids = futures_util::future::join_all(starts).await;
    assert_eq!(world.driver.list().await.unwrap().len(), 20);
    let ends = ids.iter().map(|id| world.driver.remove(*id));
    for end in futures_util::future::join_all(ends).await {
        end.unwrap();
    }
    world.close().await;
}

pub async fn a_sandbox_that_ended_can_be_removed<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    let pid = world.driver.list().await.unwrap()[0].pid.unwrap();
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    for _ in 0..1000 {
        if sandbox.ended().await.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(sandbox.ended().await.is_some());
    assert_eq!(world.driver.list().await.unwrap()[0].state, State::Ended);
    assert!(matches!(world.driver.adopt(sandbox.id()).await, Err(Error::NotFound(_))));
    // What it wrote is still there, and can be kept.
    world.driver.save(sandbox.id(), &layer("late"), sandbox::Save::Stop { without: &[] }).await.unwrap();
    assert!(world.driver.list().await.unwrap().is_empty());
    world.close().await;
}

pub async fn what_was_half_made_can_be_removed<H: Harness>() {
    let world = World::<H>::new();
    for wait in [0, 1, 2, 4, 8] {
        let spec = Spec::new(Stack::host(), Life::Own, Owner::OneOff);
        // A server that dies over it.
        let made =
            tokio::time::timeout(std::time::Duration::from_millis(wait), world.driver.create(&spec)).await;
        drop(made);
        world.driver.remove(spec.id).await.unwrap();
        until("every trace to be gone", || world.harness.traces(spec.id).is_empty()).await;
        assert!(world.driver.list().await.unwrap().is_empty());
    }
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    assert_eq!(run(&*sandbox, "true").await.1.code, 0);
    world.close().await;
}
