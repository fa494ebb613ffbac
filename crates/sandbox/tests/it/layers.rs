//! Layers below a sandbox: whose their files are, how they stack, and what a whole system of layers gets.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use sandbox::native::Native;
use sandbox::{Archive, Base, Driver, LayerId, Life, Limits, Owner, Save, Spec, Stack};

use crate::{Host, sh};

#[tokio::test]
async fn ids_inside_are_those_on_disk() {
    let host = Host::new();
    let sandbox = host.sandbox(Life::Tied, Limits::default()).await;
    let (text, _) = sh(&*sandbox, "touch f; stat -c %u:%g /etc/passwd / f /workspace /home/dev").await;
    let on_disk = std::fs::metadata(host.sandbox_dirs()[0].join("upper/workspace/f")).unwrap();
    if host.driver.rootless() {
        assert_eq!(text, ["1000:1000"; 5].join("\n"));
        assert_eq!(on_disk.uid(), rustix::process::getuid().as_raw());
    } else {
        assert_eq!(text, "0:0\n0:0\n1000:1000\n1000:1000\n1000:1000");
        assert_eq!((on_disk.uid(), on_disk.gid()), (1000, 1000));
        let (text, exit) = sh(&*sandbox, "echo x >> /etc/passwd").await;
        assert_ne!(exit.code, 0, "root's files are root's: {text}");
    }
}

#[tokio::test]
async fn layers_stack_and_any_sandbox_can_stand_on_them() {
    let host = Host::new();
    let mut stack = Stack::host();
    for (number, script) in [
        "mkdir d; echo one > d/a; echo one > d/b; ln -s a d/l; chmod 700 /workspace",
        "echo two > d/b; rm d/l; echo two > c",
        "rm -r d; mkdir d; echo three > d/z",
    ]
    .iter()
    .enumerate()
    {
        let spec = Spec::new(stack.clone(), Life::Own, Owner::OneOff);
        let sandbox = host.driver.create(&spec).await.unwrap();
        let (text, exit) = sh(&*sandbox, script).await;
        assert_eq!(exit.code, 0, "{text}");
        let layer: LayerId = format!("step-{number}").parse().unwrap();
        host.driver.save(sandbox.id(), &layer, Save::Stop { without: &[] }).await.unwrap();
        stack = stack.with(layer);
    }
    for (depth, wanted) in [(1, "a=one b=one l=a"), (2, "a=one b=two c=two"), (3, "c=two z=three")] {
        let stack = Stack { layers: stack.layers[3 - depth..].to_vec(), ..Stack::host() };
        let show = "for f in d/a d/b c d/z; do test -e $f && printf '%s=%s ' ${f##*/} $(cat $f); done; \
                    test -L d/l && printf 'l=%s' $(readlink d/l); echo; stat -c %u,%a . ; echo more >> c";
        let (first, second) = tokio::join!(
            async { host.driver.create(&Spec::new(stack.clone(), Life::Tied, Owner::OneOff)).await.unwrap() },
            async { host.driver.create(&Spec::new(stack.clone(), Life::Tied, Owner::OneOff)).await.unwrap() },
        );
        for sandbox in [first, second] {
            let (text, exit) = sh(&*sandbox, show).await;
            assert_eq!(exit.code, 0, "{text}");
            let (files, workspace) = text.split_once('\n').unwrap();
            assert_eq!((files.trim(), workspace), (wanted, "1000,700"), "{depth} layers");
        }
    }
}

/// A system of one shell and what it is linked with.
fn shell_only(dir: &Path) -> Archive {
    let root = dir.join("system");
    let put = |source: &str| {
        let target = root.join(source.trim_start_matches('/'));
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(source, target).unwrap();
    };
    put("/bin/sh");
    let linked = Command::new("ldd").arg("/bin/sh").output().unwrap();
    String::from_utf8_lossy(&linked.stdout)
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .for_each(put);
    std::fs::create_dir_all(root.join("etc")).unwrap();
    std::fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
    std::os::unix::fs::symlink("../outside/resolv.conf", root.join("etc/resolv.conf")).unwrap();
    std::os::unix::fs::symlink("/var", root.join("run")).unwrap();
    let path = dir.join("system.tar");
    let packed = Command::new("tar").arg("-cf").arg(&path).arg("-C").arg(&root).arg(".").status().unwrap();
    assert!(packed.success());
    Archive { path, whiteouts: false, below: Vec::new() }
}

#[tokio::test]
async fn a_system_of_layers_alone_gets_what_it_lacks() {
    let files = tempfile::tempdir().unwrap();
    let host = Host::new();
    let layer: LayerId = "shell".parse().unwrap();
    host.driver.import(&layer, &shell_only(files.path())).await.unwrap();
    let env = vec![("FROM_IMAGE".to_owned(), "yes".to_owned()), ("LANG".to_owned(), "C".to_owned())];
    let stack = Stack { base: Base::Scratch, layers: vec![layer], env };
    let spec =
        Spec { network: sandbox::Network::Egress, ..Spec::new(stack.clone(), Life::Own, Owner::OneOff) };
    let sandbox = host.driver.create(&spec).await.unwrap();
    let script = "echo $PATH; echo $HOME $FROM_IMAGE $LANG; while read l; do echo $l; done < /etc/resolv.conf; \
                  while read l; do echo $l; done < /etc/passwd; echo x > /workspace/f; echo x > /home/dev/f; \
                  echo x > /tmp/f; echo x > /run/slipway/f; echo x > /dev/null; test -e /proc/self/status; \
                  test ! -e /usr/bin/env && echo alone";
    let (text, exit) = sh(&*sandbox, script).await;
    assert_eq!(
        text,
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n/home/dev yes C\nnameserver 127.0.0.1\n\
         root:x:0:0::/root:/bin/sh\ndev:x:1000:1000:dev:/home/dev:/bin/sh\nalone"
    );
    assert_eq!(exit.code, 0);
    let saved: LayerId = "saved".parse().unwrap();
    host.driver.save(sandbox.id(), &saved, Save::Stop { without: &[] }).await.unwrap();
    // Another driver on the same directory is what a restarted server has.
    let driver = Native::open(host.dir.path()).unwrap();
    let spec = Spec::new(stack.with(saved), Life::Tied, Owner::OneOff);
    let sandbox = driver.create(&spec).await.unwrap();
    let (text, _) = sh(&*sandbox, "test -e /tmp/f && echo kept").await;
    assert_eq!(text, "kept");
}
