//! Hosted servers that are known by name. The addresses are those that their vendors document; `url` in the configuration
//! takes their place, as for another region or an installation of one's own.

/// How a hosted server knows who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignIn {
    /// A person signs in once (`slipway mcp login`); a token works where the vendor gives one.
    OAuth,
    /// A token that the vendor gives.
    Token,
}

/// A hosted server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name in the configuration.
    pub name: &'static str,
    /// Its address.
    pub url: &'static str,
    /// How it knows who asks.
    pub sign_in: SignIn,
    /// What it is for and what it needs.
    pub about: &'static str,
}

/// One row for each vendor.
pub const PRESETS: [Preset; 7] = [
    Preset {
        name: "sentry",
        url: "https://mcp.sentry.dev/mcp",
        sign_in: SignIn::OAuth,
        about: "errors, issues and traces of Sentry",
    },
    Preset {
        name: "datadog",
        url: "https://mcp.datadoghq.com/v1/mcp",
        sign_in: SignIn::OAuth,
        about: "logs, metrics, traces and monitors of Datadog; the address is that of the site US1, other sites have their own",
    },
    Preset {
        name: "launchdarkly",
        url: "https://mcp.launchdarkly.com/mcp/launchdarkly",
        sign_in: SignIn::OAuth,
        about: "feature flags of LaunchDarkly; not for its EU and federal instances",
    },
    Preset {
        name: "braintrust",
        url: "https://api.braintrust.dev/mcp",
        sign_in: SignIn::OAuth,
        about: "experiments, datasets and logs of Braintrust; an API key works as a token",
    },
    Preset {
        name: "buildkite",
        url: "https://mcp.buildkite.com/mcp",
        sign_in: SignIn::OAuth,
        about: "pipelines, builds and logs of Buildkite; .../mcp/readonly changes nothing",
    },
    Preset {
        name: "github",
        url: "https://api.githubcopilot.com/mcp/",
        sign_in: SignIn::Token,
        about: "repositories, issues and pull requests of GitHub; needs a personal access token",
    },
    Preset {
        name: "linear",
        url: "https://mcp.linear.app/mcp",
        sign_in: SignIn::OAuth,
        about: "issues and projects of Linear; an API key works as a token",
    },
];

/// The preset of this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// All names, for messages.
pub fn names() -> String {
    PRESETS.map(|preset| preset.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_preset_has_a_name_of_its_own_and_an_address() {
        for preset in PRESETS {
            crate::check_name(preset.name).unwrap();
            assert!(url::Url::parse(preset.url).is_ok_and(|url| url.scheme() == "https"), "{preset:?}");
            assert_eq!(find(preset.name).map(|found| found.url), Some(preset.url));
        }
        assert!(find("nobody").is_none());
    }
}
