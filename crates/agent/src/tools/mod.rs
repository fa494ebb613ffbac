//! The tools a model can call: definitions, arguments, and what can be decided without IO. One file each; what they
//! share (reading arguments, cutting output) has its own files. Doing the work is the session's part.

use protocol::chat::{ToolSpec, UNREADABLE_CALL};
use protocol::event::PlanItem;
use protocol::{EditFormat, McpTool, NoteKind, ScopeKind};

mod arguments;
mod ask;
mod check;
mod cut;
mod definition;
mod difference;
mod edit;
mod guard;
mod head;
mod hollow;
mod keys;
mod label;
mod list;
mod matching;
mod mcp;
mod merge;
mod nearest;
mod overwrite;
mod patch;
mod plan;
mod process;
mod read;
mod readable;
mod recall;
mod remember;
mod removal;
mod search;
mod shell;
mod skill;
mod web_fetch;
mod write;

pub use arguments::{recorded_input, replayed_arguments};
pub use ask::NOBODY_ANSWERS;
pub use cut::cut;
pub use difference::Difference;
pub use edit::edit;
pub(crate) use guard::define_the_same;
pub use label::in_place_of;
pub use mcp::{answered as mcp_answered, found_tools as mcp_found, is_of_server};
pub(crate) use mcp::{calls_server, specs as mcp_specs};
pub use overwrite::{Overwrite, Writer, overwrite};
pub use patch::{Change, ChangeKind, Hunk, patched};
pub use plan::{plan_mark, plan_noted};
pub use read::{Extent, numbered};
pub use readable::{is_binary, readable};
pub(crate) use recall::gives_notes;
pub use remember::remembered;
pub(crate) use removal::is_test;
pub use web_fetch::{Response, fetched};

use arguments::Tool;

/// A call that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// Run a shell command in the workspace.
    Shell {
        /// The command, for `sh -c` or `bash -c`.
        command: String,
        /// When it is killed; 0 for never, which only one in the background has.
        timeout_ms: u64,
        /// Whether it is left running.
        background: bool,
    },
    /// Look after what runs in the background.
    Process {
        /// Which one; all are listed when absent.
        id: Option<String>,
        /// What is written to its input.
        stdin: Option<String>,
        /// How long to wait for its end.
        wait_ms: u64,
        /// Whether it is ended.
        kill: bool,
    },
    /// Read a text file.
    Read {
        /// The file.
        path: String,
        /// First line, from 1.
        offset: u64,
        /// Most lines.
        limit: u64,
        /// First byte of the first line, from 1.
        column: u64,
    },
    /// Make a file, or replace the whole of one.
    Write {
        /// The file.
        path: String,
        /// Its whole new text.
        content: String,
    },
    /// Replace one piece of text in a file; see [`edit`].
    Edit {
        /// The file.
        path: String,
        /// The text that is there.
        old: String,
        /// The text that takes its place.
        new: String,
        /// Whether every match is replaced.
        all: bool,
    },
    /// Change files with a patch; see [`patched`].
    Patch {
        /// What is done to each file, in order.
        changes: Vec<Change>,
    },
    /// Find lines by regular expression.
    Search {
        /// The regular expression.
        pattern: String,
        /// File or directory to look in; the workspace when absent.
        path: Option<String>,
        /// Only files whose name fits.
        glob: Option<String>,
    },
    /// List a directory.
    List {
        /// The directory.
        path: String,
    },
    /// Run the environment's checks.
    Check {
        /// Which one; all when absent.
        name: Option<String>,
    },
    /// Write the plan down.
    Plan {
        /// The whole plan.
        items: Vec<PlanItem>,
    },
    /// Ask a person.
    Ask {
        /// What is asked.
        question: String,
        /// Answers to choose from.
        options: Vec<String>,
    },
    /// Fetch a page.
    WebFetch {
        /// Its address.
        url: String,
    },
    /// Keep a note for later sessions.
    Remember {
        /// The note.
        text: String,
        /// What it answers.
        subject: String,
        /// What sort of thing it is.
        kind: NoteKind,
        /// What it is about.
        scope: ScopeKind,
    },
    /// Look for notes of earlier sessions.
    Recall {
        /// What is looked for.
        query: String,
    },
    /// Load a skill.
    Skill {
        /// Its name.
        name: String,
    },
    /// Call a tool of an MCP server.
    Mcp {
        /// What the model calls it.
        name: String,
        /// The server.
        server: String,
        /// The server's own name for it.
        tool: String,
        /// Its arguments, an object.
        arguments: serde_json::Value,
    },
    /// Find tools of MCP servers.
    McpTools {
        /// Words of what is wanted.
        query: String,
    },
}

/// Tools that not every session has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers {
    /// A person can be asked.
    pub ask: bool,
    /// Something outside can be reached.
    pub web: bool,
    /// Something is remembered across sessions.
    pub memory: bool,
    /// There are skills.
    pub skills: bool,
}

impl Invocation {
    /// Name of the tool.
    pub fn tool(&self) -> &str {
        match self {
            Self::Shell { .. } => shell::TOOL.name,
            Self::Process { .. } => process::TOOL.name,
            Self::Read { .. } => read::TOOL.name,
            Self::Write { .. } => write::TOOL.name,
            Self::Edit { .. } => edit::TOOL.name,
            Self::Patch { .. } => patch::TOOL.name,
            Self::Search { .. } => search::TOOL.name,
            Self::List { .. } => list::TOOL.name,
            Self::Check { .. } => check::TOOL.name,
            Self::Plan { .. } => plan::TOOL.name,
            Self::Ask { .. } => ask::TOOL.name,
            Self::WebFetch { .. } => web_fetch::TOOL.name,
            Self::Remember { .. } => remember::TOOL.name,
            Self::Recall { .. } => recall::TOOL.name,
            Self::Skill { .. } => skill::TOOL.name,
            Self::Mcp { name, .. } => name,
            Self::McpTools { .. } => mcp::FIND,
        }
    }
}

/// In the order in which the model sees them; a change of order costs every provider's prompt cache.
const TOOLS: [&Tool; 15] = [
    &shell::TOOL,
    &process::TOOL,
    &read::TOOL,
    &write::TOOL,
    &edit::TOOL,
    &patch::TOOL,
    &search::TOOL,
    &list::TOOL,
    &check::TOOL,
    &plan::TOOL,
    &ask::TOOL,
    &web_fetch::TOOL,
    &remember::TOOL,
    &recall::TOOL,
    &skill::TOOL,
];

/// The tools of a model that changes files in this way, in a fixed order.
pub fn specs(format: EditFormat, offers: Offers) -> Vec<ToolSpec> {
    offered(format, offers).map(Tool::spec).collect()
}

fn offered(format: EditFormat, offers: Offers) -> impl Iterator<Item = &'static Tool> {
    let fits = move |tool: &&Tool| match tool.name {
        name if name == edit::TOOL.name => format == EditFormat::Replace,
        name if name == patch::TOOL.name => format == EditFormat::Patch,
        name if name == ask::TOOL.name => offers.ask,
        name if name == web_fetch::TOOL.name => offers.web,
        name if name == remember::TOOL.name || name == recall::TOOL.name => offers.memory,
        name if name == skill::TOOL.name => offers.skills,
        _ => true,
    };
    TOOLS.into_iter().filter(fits)
}

/// The names of all tools, also of those that only some models have.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|tool| tool.name)
}

/// Whether a tool has this name.
pub(crate) fn exists(name: &str) -> bool {
    TOOLS.iter().any(|tool| tool.name == name)
}

/// The names of a tool's arguments, in order.
pub(crate) fn field_names(name: &str) -> Vec<&'static str> {
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    tool.into_iter().flat_map(|tool| tool.fields).map(|field| field.name).collect()
}

/// Whether a call is the plan.
pub(crate) fn shows_plan(tool: &str) -> bool {
    tool == plan::TOOL.name
}

/// Whether a call runs the checks.
pub(crate) fn runs_checks(tool: &str) -> bool {
    tool == check::TOOL.name
}

/// Whether a call runs programs, which may fail for good reason.
pub(crate) fn runs_programs(tool: &str) -> bool {
    [shell::TOOL.name, process::TOOL.name, check::TOOL.name].contains(&tool)
}

/// Whether a call loads a skill.
pub(crate) fn loads_skill(tool: &str) -> bool {
    tool == skill::TOOL.name
}

/// Whether a call changes files by itself.
pub(crate) fn changes_files(tool: &str) -> bool {
    [write::TOOL.name, edit::TOOL.name, patch::TOOL.name].contains(&tool)
}

/// Reads a call's arguments. A tool that is not offered is run all the same: what the model meant is plain. The error is what
/// the model reads.
pub fn parse(format: EditFormat, tool: &str, arguments: &str) -> Result<Invocation, String> {
    match TOOLS.iter().find(|known| known.name == tool) {
        Some(known) => known.parse(arguments),
        None if tool == UNREADABLE_CALL => Err(format!(
            "Your call could not be read by the server that you run on, so nothing was done. It says: {arguments}\nMake the call again, with the tool's name and arguments as its schema has them."
        )),
        None => {
            let names: Vec<&str> = offered(format, Offers::default()).map(|known| known.name).collect();
            Err(format!("There is no tool \"{tool}\". The tools are: {}.", names.join(", ")))
        }
    }
}

/// Reads a call where there are tools of MCP servers, too.
pub fn parse_with(
    mcp: &[McpTool],
    format: EditFormat,
    tool: &str,
    arguments: &str,
) -> Result<Invocation, String> {
    mcp::parse(mcp, tool, arguments).unwrap_or_else(|| parse(format, tool, arguments))
}

/// Reads a call as a model with the usual tools makes it.
#[cfg(test)]
pub(crate) fn parse_any(tool: &str, arguments: &str) -> Result<Invocation, String> {
    parse(EditFormat::Replace, tool, arguments)
}

#[cfg(test)]
mod tests {
    use super::{parse_any as parse, *};

    const ALL: Offers = Offers { ask: true, web: true, memory: true, skills: true };

    #[test]
    fn an_unknown_tool_is_answered_with_the_names_of_the_known_ones() {
        insta::assert_snapshot!(parse("bash", "{}").unwrap_err(), @r#"There is no tool "bash". The tools are: shell, process, read, write, edit, search, list, check, plan."#);
    }

    #[test]
    fn a_call_that_its_server_could_not_read_is_told_as_such() {
        let told = parse(UNREADABLE_CALL, "MALFORMED_FUNCTION_CALL: ").unwrap_err();
        assert!(told.contains("could not be read") && !told.contains("no tool"), "{told}");
    }

    #[test]
    fn every_invocation_knows_its_tool() {
        let calls = [
            ("shell", r#"{"command":"ls"}"#),
            ("process", "{}"),
            ("read", r#"{"path":"a"}"#),
            ("write", r#"{"path":"a","content":""}"#),
            ("edit", r#"{"path":"a","old":"b","new":"c"}"#),
            ("apply_patch", r#"{"patch":"*** Delete File: a"}"#),
            ("search", r#"{"pattern":"b"}"#),
            ("list", "{}"),
            ("check", "{}"),
            ("plan", r#"{"items":"[ ] a"}"#),
            ("ask", r#"{"question":"a"}"#),
            ("web_fetch", r#"{"url":"https://a.test"}"#),
            ("remember", r#"{"text":"a","subject":"b"}"#),
            ("recall", r#"{"query":"a"}"#),
            ("skill", r#"{"name":"a"}"#),
        ];
        for (name, arguments) in calls {
            assert_eq!(parse(name, arguments).unwrap().tool(), name);
        }
        assert_eq!(calls.len(), TOOLS.len());
    }

    #[test]
    fn schemas_are_flat_and_closed() {
        for spec in TOOLS.map(Tool::spec) {
            assert_eq!(spec.schema["type"], "object", "{}", spec.name);
            assert_eq!(spec.schema["additionalProperties"], false, "{}", spec.name);
            for (field, schema) in spec.schema["properties"].as_object().unwrap() {
                let kind = schema["type"].as_str().unwrap();
                assert!(["string", "integer", "boolean"].contains(&kind), "{}.{field}", spec.name);
            }
        }
        assert_eq!(
            specs(EditFormat::Patch, Offers::default())[0].schema["required"],
            serde_json::json!(["command"])
        );
    }

    #[test]
    fn each_way_to_change_files_has_its_tools() {
        let names = |format| {
            specs(format, Offers::default()).into_iter().map(|spec| spec.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(EditFormat::Replace), "shell process read write edit search list check plan");
        assert_eq!(names(EditFormat::Patch), "shell process read write apply_patch search list check plan");
        assert_eq!(names(EditFormat::Whole), "shell process read write search list check plan");
    }

    #[test]
    fn what_the_model_is_told_about_its_tools() {
        let text: Vec<String> = offered(EditFormat::Replace, ALL).map(Tool::outline).collect();
        insta::assert_snapshot!(text.join("\n\n"), @"
        shell: Runs a shell command in /workspace and gives back its output and exit code. Each call starts a fresh shell, so `cd` and variables do not last. There is no terminal and no input: use flags such as -y. For a server, or what takes longer than the limit, set background and follow it with process.
          command (string, required): The command.
          timeout_ms (integer, optional): Kill it after this many milliseconds; 120000 unless given, at most 600000.
          background (boolean, optional): Leave it running, also after your work, and give back an id for process; then it has no time limit unless timeout_ms is given.

        process: Follows a command that shell left running in the background: gives its new output since you last looked, and whether it still runs. Without id it lists all of them.
          id (string, optional): Which one, such as p1.
          stdin (string, optional): Text to write to its input first; end each line with a newline.
          wait_ms (integer, optional): Wait up to this many milliseconds for it to end; 1000 unless given, at most 600000.
          kill (boolean, optional): End it, with all that it started; false unless given.

        read: Shows a text file with line numbers. The numbers and the tab after them are not part of the file. Shows a PNG, JPEG, GIF or WebP as an image.
          path (string, required): The file, relative to /workspace or absolute.
          offset (integer, optional): First line to show, from 1; 1 unless given.
          limit (integer, optional): Most lines to show; 2000 unless given.
          column (integer, optional): First byte to show of the first line, from 1; for lines too long to show whole.

        write: Makes a file with this content, or replaces the whole of an existing one; missing directories are made. To change a part of a file use edit.
          path (string, required): The file, relative to /workspace or absolute.
          content (string, required): The whole text of the file.

        edit: Replaces text in a file. `old` must be in the file exactly once, so give enough lines around the change; with `all` every match is replaced.
          path (string, required): The file, relative to /workspace or absolute.
          old (string, required): The text that is there, without line numbers.
          new (string, required): The text that takes its place; empty to delete.
          all (boolean, optional): Replace every match; false unless given.

        search: Finds the lines of files that match a regular expression, as path:line:text. Ignored files are left out.
          pattern (string, required): The regular expression, as Perl and ripgrep write them: \\d, \\b, (?i).
          path (string, optional): File or directory to look in; /workspace unless given.
          glob (string, optional): Only files whose name fits, such as *.rs or *.{ts,tsx}; with ! before it, all others.

        list: Lists a directory; directories end with a slash.
          path (string, optional): The directory, relative to /workspace or absolute; /workspace unless given.

        check: Runs the environment's checks and gives back what failed, where and why. The same checks run before the work may finish.
          name (string, optional): Which check to run; all of them unless given.

        plan: Writes down your to-do list for work of several steps; people see it. Send the whole list each time an item changes.
          items (string, required): One item on each line: [ ] pending, [>] in progress, [x] completed, [-] skipped or [!] failed, then what it is.

        ask: Asks a person and gives back the answer; all work waits until then, maybe for hours. Only for what you can neither find out nor decide yourself, and would spoil the work if decided wrongly. Ask all you need at once.
          question (string, required): The question, with what is needed to answer it.
          options (string, optional): Answers to choose from, one on each line; the person may give another one.

        web_fetch: Fetches a page from the web and gives it as text, with its links; also plain text and JSON. Only hosts that the environment allows can be reached. For servers in the sandbox use curl in shell.
          url (string, required): The address, with http:// or https://.

        remember: Keeps a note for later sessions, which know nothing of this one: a fact that took effort to find, a decision of the user, or an error and what cured it. Not what the repository says itself, not the state of this task, never a secret. A note that says the same becomes one with it; an older one with the same subject is replaced.
          text (string, required): One or two sentences that make sense by themselves, with names and commands as they are.
          subject (string, required): What it answers, in a word or two, such as package manager, or the name of the error.
          kind (string, optional): fact, decision or error_pattern; fact unless given.
          scope (string, optional): Whom it is about: repository, environment, or person for what the author of the prompt likes; repository unless given.

        recall: Looks for notes of earlier sessions about this repository, this environment and the author of the prompt: facts, decisions, errors and their cures. Use it when something seems odd, or when an error may have come before.
          query (string, required): What you want to know, as a question or in a few words, or the message of an error.

        skill: Loads one of the skills that your instructions list: what it says, and where its other files are.
          name (string, required): The skill's name.
        ");
    }
}
