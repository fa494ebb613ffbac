//! The commands, one file each: its arguments, what it does, and what it prints.

mod answer;
mod approve;
mod attach;
mod backup;
mod bench;
mod budget;
mod build;
mod completions;
mod deliver;
mod demo;
mod diff;
mod doctor;
mod edit;
mod env;
mod fork;
mod gc;
mod images;
mod login;
mod ls;
mod mcp;
mod mcp_servers;
mod memory;
mod models;
mod one_off;
mod openapi;
mod policy;
mod pr;
mod prompt;
mod pull;
mod queue;
mod rebase;
mod restore;
mod run;
mod sandbox;
mod secret;
mod serve;
mod show;
mod spend;
mod stop;
mod tail;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use protocol::SessionId;
use session::Duty;

use crate::config::{Config, Source};
use crate::connect::{Link, Remote};
use crate::exit::{Exit, Usage};
use crate::node::Role;

/// Slipway, the self-hosted background coding agent.
///
/// Describe a task; an agent works on it in a sealed sandbox, your checks tell it what it broke, and at the end there is
/// a branch that passed them. Commands use the server of the data directory; when none runs, they are their own for as
/// long as they take.
#[derive(Debug, Parser)]
#[command(name = "slipway", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Configuration file [default: slipway.toml in the data directory]
    #[arg(long, global = true, value_name = "FILE", env = "SLIPWAY_CONFIG")]
    config: Option<PathBuf>,
    /// Where sessions, mirrors and sandboxes live [default: ~/.local/share/slipway]
    #[arg(long, global = true, value_name = "DIR", env = "SLIPWAY_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Use the server at this address
    #[arg(long, global = true, value_name = "URL", env = "SLIPWAY_SERVER")]
    server: Option<String>,
    /// Print JSON (one line for each event where there is a stream)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more on standard error; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See the whole of it work, on a small bundled repository
    Demo(demo::Demo),
    /// Run the server
    Serve(serve::Serve),
    /// Give the agent a task and watch it work
    ///
    /// It ends with exit code 0 when the work is done and its checks passed, with 1 when it failed or escalated. Interrupting
    /// it once stops the turn; the work so far is kept.
    Run(run::Run),
    /// Queue a follow-up in a session
    Prompt(prompt::Prompt),
    /// List, edit, move, remove, pause and resume the prompts that wait
    Queue(queue::Queue),
    /// Watch a session
    Attach(attach::Attach),
    /// List sessions
    Ls(ls::Ls),
    /// Show a session: status, checks, spend, delivery
    Show(show::Show),
    /// Give a session another model, title or policy
    Edit(edit::Edit),
    /// Show what a session may use, or change it
    ///
    /// Money, tokens, time and steps, for each turn and for all of the session. A change takes effect at once, also while a
    /// turn runs. Work that ended because a budget was used up goes on when there is enough again.
    Budget(budget::Budget),
    /// Show what sessions spent, by day and model
    Spend(spend::Spend),
    /// Stop the turn that a session is working on
    Stop(stop::Stop),
    /// Approve what a session waits for: the push of its work, or a call of the agent
    ///
    /// It is shown first. Whoever is first decides.
    Approve(approve::Approve),
    /// Reject what a session waits for, with a comment for the agent
    ///
    /// With a comment the agent goes on with what it says. Without one, a call is left out, and a turn whose push is rejected
    /// ends as escalated.
    Reject(approve::Reject),
    /// Answer the question that a session waits with
    ///
    /// What is said is given to the agent, which goes on. Whoever is first answers; `slipway reject` lets the agent decide
    /// by itself.
    Answer(answer::Answer),
    /// Show what a session changed
    Diff(diff::Diff),
    /// Push a session's branch (again)
    Deliver(deliver::Deliver),
    /// Show a session's pull request, or change it
    ///
    /// Without options it shows what became of it and the forge's own checks. Options give it another title or body, make it a
    /// draft or ready, add labels and reviewers, say something below it, or close it.
    Pr(pr::Pr),
    /// Bring a session's branch up to date with its base; conflicts are the agent's
    Rebase(rebase::Rebase),
    /// Bring a session's branch into a checkout on this machine
    Pull(pull::Pull),
    /// Sign in at a forge, so that pull requests are opened in your name
    ///
    /// Where the forge has that and client_id is set, a code is shown that you type in there; else a token is read from
    /// standard input. It is sealed, and used to open the pull requests that your prompts cause, so that others can approve
    /// them and you cannot. Without a forge it shows where you have signed in.
    Login(login::Login),
    /// Go on from a snapshot of a session in a new one
    ///
    /// It has the conversation up to there, the workspace as it was, and a branch of its own. The first session stays as it
    /// is.
    Fork(fork::Fork),
    /// List the snapshots of a session: its workspace as it was at the end of each turn
    Snapshots(fork::Snapshots),
    /// Environments: the recipes that sandboxes start from, and their images
    #[command(subcommand)]
    Env(env::Env),
    /// Sandboxes: run one command in one, list and remove them
    #[command(subcommand)]
    Sandbox(sandbox::Sandbox),
    /// Remove what nothing needs any more from the disk
    ///
    /// These are layers, snapshots and images that nothing refers to, or that are over disk_budget_gb, and files as they were
    /// before an upgrade, after 30 days. Nothing in use is ever removed. A session whose last snapshot goes continues from
    /// the commits that were kept of its work. A server does this by itself.
    Gc(gc::Gc),
    /// Write everything to one file, while sessions go on
    ///
    /// In it are each session's log, outputs and notes, the environments that were added, and the mirrors of the
    /// repositories with every session's commits. Not in it are images, snapshots, sandboxes and pools, which are made
    /// again; slipway.toml; keys in variables and files; and the key that opens secrets (secret.key, unless configured
    /// otherwise): secrets are in it as they are sealed, so keep a copy of that key elsewhere. Addresses of repositories are
    /// in it with the credentials that they were given with, and so is everything that was said and printed: keep the file
    /// as carefully as the data directory. `slipway restore` puts it back.
    Backup(backup::Backup),
    /// Put a backup back; what is there is left alone
    ///
    /// The whole file is checked before anything is written, and one that is not whole is refused. It works on an empty data
    /// directory and on one that is in use, with a server or without. Turns that were under way when the backup was made go
    /// on when a server works on them, so do not run them in two places. To bring back one damaged session, stop the server,
    /// move the session's directory away, and restore.
    Restore(restore::Restore),
    /// List the models, or try one out
    Models(models::Models),
    /// Memory: what sessions of a repository, an environment or a person know of
    #[command(subcommand)]
    Memory(memory::Memory),
    /// Offer sessions as tools to an editor or another agent, over MCP; or look after the MCP servers that agents use
    ///
    /// The program that uses them starts this one: give it `slipway` as the command and `mcp` as the argument. Sessions are
    /// started, waited for, answered, looked at and delivered with the rights of whoever runs it. It ends with its standard
    /// input; what is being worked on then goes on in the background.
    ///
    /// With a subcommand it is the other way round: the MCP servers of slipway.toml, whose tools agents have.
    Mcp(mcp::Mcp),
    /// Secrets: keys of models and values for sandboxes' requests, kept by name and shown to nobody
    #[command(subcommand)]
    Secret(secret::Secret),
    /// Measure how many tasks of a suite a model solves, and at what cost
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Say what holds on this machine and how to get the rest
    Doctor(doctor::Doctor),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Print the description of the HTTP API
    #[command(name = "openapi")]
    OpenApi(openapi::OpenApi),
}

/// What commands work with.
pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) source: Source,
    pub(crate) remote: Remote,
    pub(crate) json: bool,
}

impl Context {
    /// For a command that gives work or waits for it.
    async fn link(&self) -> anyhow::Result<Link> {
        Link::open(&self.config, &self.remote, Duty::Work, Role::Command).await
    }

    /// For a command that only looks: it touches no work that waits to be taken up.
    async fn look(&self) -> anyhow::Result<Link> {
        Link::open(&self.config, &self.remote, Duty::Look, Role::Moment).await
    }

    /// For a command that takes up no work either, but may take its time: others can look through it meanwhile.
    async fn look_for_long(&self) -> anyhow::Result<Link> {
        Link::open(&self.config, &self.remote, Duty::Look, Role::Command).await
    }
}

/// Reads a session's id, and says where ids are found.
fn session_id(text: &str) -> Result<SessionId, String> {
    text.parse().map_err(|error| format!("{error}; list the sessions with: slipway ls"))
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let Global { config, data_dir, server, json, .. } = arguments.global;
    let source = Source { file: config, data_dir };
    match &arguments.command {
        Command::Completions(command) => return command.run(),
        Command::OpenApi(command) => return command.run(),
        _ => {}
    }
    let config = Config::load(&source).map_err(Usage)?;
    let context = Context { config, source, remote: Remote { url: server }, json };
    match arguments.command {
        Command::Demo(command) => command.run(context).await,
        Command::Serve(command) => command.run(context).await,
        Command::Run(command) => command.run(context).await,
        Command::Prompt(command) => command.run(context).await,
        Command::Queue(command) => command.run(context).await,
        Command::Approve(command) => command.run(context).await,
        Command::Reject(command) => command.run(context).await,
        Command::Answer(command) => command.run(context).await,
        Command::Attach(command) => command.run(context).await,
        Command::Ls(command) => command.run(context).await,
        Command::Show(command) => command.run(context).await,
        Command::Edit(command) => command.run(context).await,
        Command::Budget(command) => command.run(context).await,
        Command::Spend(command) => command.run(context).await,
        Command::Stop(command) => command.run(context).await,
        Command::Diff(command) => command.run(context).await,
        Command::Deliver(command) => command.run(context).await,
        Command::Pr(command) => command.run(context).await,
        Command::Rebase(command) => command.run(context).await,
        Command::Pull(command) => command.run(context).await,
        Command::Login(command) => command.run(context).await,
        Command::Fork(command) => command.run(context).await,
        Command::Snapshots(command) => command.run(context).await,
        Command::Gc(command) => command.run(context).await,
        Command::Env(command) => command.run(context).await,
        Command::Sandbox(command) => command.run(context).await,
        Command::Backup(command) => command.run(context).await,
        Command::Restore(command) => command.run(context).await,
        Command::Models(command) => command.run(context).await,
        Command::Memory(command) => command.run(context).await,
        Command::Mcp(command) => command.run(context).await,
        Command::Secret(command) => command.run(context).await,
        Command::Bench(command) => command.run(context).await,
        Command::Doctor(command) => command.run(context).await,
        Command::Completions(command) => command.run(),
        Command::OpenApi(command) => command.run(),
    }
}
