//! Commands, files and terminals inside.

use guest::wire::PtySize;
use guest::{Output, ProcessSpec};
use sandbox::{Life, Stack};

use super::{Harness, World, run, sh};

pub async fn a_command_runs_and_its_output_comes_at_once<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    let argv = ["/bin/sh", "-c", "echo first; read line; echo $line"].map(str::to_owned).into();
    let spec = ProcessSpec { argv, stdin: true, ..Default::default() };
    let mut process = sandbox.guest().start("p", &spec).await.unwrap();
    // It waits for us now, so this came before it ended.
    let Some(Output::Stdout { data, .. }) = process.next().await.unwrap() else { panic!("no output") };
    assert_eq!(data, "first\n");
    sandbox.guest().write_stdin("p", "second\n".into()).await.unwrap();
    let Some(Output::Stdout { data, .. }) = process.next().await.unwrap() else { panic!("no output") };
    assert_eq!(data, "second\n");
    assert_eq!(sh(&*sandbox, "id -u; pwd; echo $HOME").await, "1000\n/workspace\n/home/dev");
    assert_eq!(sandbox.stack(), &Stack::host());
    world.close().await;
}

pub async fn exit_codes_and_signals_are_told<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    for code in [0, 1, 7, 255] {
        assert_eq!(run(&*sandbox, &format!("exit {code}")).await.1.code, code);
    }
    let exit = run(&*sandbox, "kill -USR1 $$").await.1;
    assert_eq!((exit.code, exit.signal), (138, Some(10)));
    let argv = ["sleep", "1000"].map(str::to_owned).into();
    let mut process =
        sandbox.guest().start("sleeper", &ProcessSpec { argv, ..Default::default() }).await.unwrap();
    sandbox.guest().signal("sleeper", 15).await.unwrap();
    let Some(Output::Exit(exit)) = process.next().await.unwrap() else { panic!("no exit") };
    assert_eq!(exit.signal, Some(15));
    let argv = ["sleep", "1000"].map(str::to_owned).into();
    let spec = ProcessSpec { argv, timeout_ms: Some(50), ..Default::default() };
    let mut process = sandbox.guest().start("late", &spec).await.unwrap();
    let Some(Output::Exit(exit)) = process.next().await.unwrap() else { panic!("no exit") };
    assert!(exit.timed_out, "{exit:?}");
    world.close().await;
}

pub async fn files_go_in_and_out<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    let data: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
    sandbox.guest().write_file("/workspace/blob", data.clone().into()).await.unwrap();
    let (read, size) = sandbox.guest().read_file("/workspace/blob", 100_000, 50).await.unwrap();
    assert_eq!((&read[..], size), (&data[100_000..100_050], 300_000));
    assert_eq!(sandbox.guest().stat("/workspace/blob").await.unwrap().size, 300_000);
    sh(&*sandbox, "mkdir sub && echo x > sub/y").await;
    let names: Vec<String> =
        sandbox.guest().list("/workspace").await.unwrap().into_iter().map(|stat| stat.name).collect();
    assert_eq!(names, ["blob", "sub"]);
    assert!(sandbox.guest().read_file("/workspace/nowhere", 0, 1).await.is_err());
    world.close().await;
}

pub async fn a_terminal_is_one<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    let spec = ProcessSpec {
        argv: ["/bin/sh", "-c", "test -t 0 && test -t 1 && stty size"].map(str::to_owned).into(),
        pty: Some(PtySize { cols: 101, rows: 33 }),
        ..Default::default()
    };
    let mut process = sandbox.guest().start("tty", &spec).await.unwrap();
    let mut text = Vec::new();
    let exit = loop {
        match process.next().await.unwrap() {
            Some(Output::Stdout { data, .. } | Output::Stderr { data, .. }) => text.extend_from_slice(&data),
            Some(Output::Exit(exit)) => break exit,
            None => panic!("the stream ended without an exit"),
        }
    };
    assert_eq!((String::from_utf8_lossy(&text).trim(), exit.code), ("33 101", 0));
    world.close().await;
}

pub async fn a_process_outlives_its_connection<H: Harness>() {
    let world = World::<H>::new();
    let sandbox = world.create(&Stack::host(), Life::Own).await;
    let argv = ["/bin/sh", "-c", "echo before; read line; echo after $line"].map(str::to_owned).into();
    let spec = ProcessSpec { argv, stdin: true, ..Default::default() };
    drop(sandbox.guest().start("long", &spec).await.unwrap());
    sandbox.guest().write_stdin("long", "all\n".into()).await.unwrap();
    let mut process = sandbox.guest().attach("long", 0).await.unwrap();
    let mut text = Vec::new();
    while let Some(output) = process.next().await.unwrap() {
        if let Output::Stdout { data, .. } = output {
            text.extend_from_slice(&data);
        }
    }
    assert_eq!(String::from_utf8_lossy(&text), "before\nafter all\n");
    world.close().await;
}

pub async fn sandboxes_do_not_share_anything<H: Harness>() {
    let world = World::<H>::new();
    let one = world.create(&Stack::host(), Life::Own).await;
    let other = world.create(&Stack::host(), Life::Own).await;
    sh(&*one, "echo mine > /workspace/x; echo mine > /tmp/x; echo mine > /dev/shm/x; (sleep 1000 &)").await;
    assert_eq!(sh(&*other, "ls /workspace /tmp /dev/shm | grep x || true").await, "");
    assert_eq!(sh(&*other, "cat /proc/[0-9]*/comm | grep sleep || true").await, "");
    world.close().await;
}
