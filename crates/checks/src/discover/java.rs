//! Tests of Java and Kotlin, where nobody says how they are run: by the build that the root has.

use super::{Found, Role};

/// How the build runs the tests; by its own wrapper where there is one.
pub(super) fn tests(names: &[&str]) -> Option<Found> {
    let has = |name: &str| names.contains(&name);
    if has("pom.xml") {
        let run = if has("mvnw") { "./mvnw -B test" } else { "mvn -B test" };
        return Some(Found::new("java", Role::Test, run, "javac", "pom.xml"));
    }
    let from = ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"];
    let from = from.into_iter().find(|name| has(name))?;
    let run = if has("gradlew") { "./gradlew test" } else { "gradle test" };
    Some(Found::new("java", Role::Test, run, "gradle", from))
}
