//! Names that nobody answers.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::world::{World, http_server};

/// As many names are looked up at a time for one sandbox.
const AT_A_TIME: usize = 16;

#[tokio::test]
async fn a_sandbox_cannot_have_any_number_of_names_looked_up_at_a_time() {
    let world = World::allow(&["*.good.test"]);
    world.host("fine.good.test", 1, 80, http_server().await);
    let names: Vec<String> = (0..AT_A_TIME).map(|number| format!("hang{number}.good.test")).collect();
    world.outside.slow.lock().unwrap().extend(names.iter().cloned());
    for name in &names {
        let mut stream = world.connect().await;
        let request = format!("CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        while !world.outside.asked.lock().unwrap().contains(name) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Whoever goes away has not taken back the question.
    }
    let answer = world.ask("GET http://fine.good.test/ HTTP/1.1\r\nHost: fine.good.test\r\n\r\n").await;
    assert!(answer.contains("16 names that this sandbox asked for before are not answered yet"), "{answer}");
    assert_eq!(world.outside.asked.lock().unwrap().len(), AT_A_TIME);
}
