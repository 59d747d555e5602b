//! What differs from OpenCode's contract, and why.

/// Everything that may differ, with its reason. `*` stands for anything.
pub(super) fn all() -> Vec<(String, &'static str)> {
    let mut all: Vec<(String, &str)> =
        DIFFERENCES.iter().map(|(pattern, reason)| ((*pattern).to_owned(), *reason)).collect();
    for (events, reason) in ABSENT_EVENTS {
        for event in *events {
            all.push((format!("event.subscribe 200 stream<{event}>: only there"), reason));
            all.push((format!("global.event 200 stream.payload<{event}>: only there"), reason));
        }
    }
    for (place, fields, reason) in ABSENT_FIELDS {
        all.extend(fields.iter().map(|field| (format!("{place}.{field}: only there"), *reason)));
    }
    all
}

/// Events that OpenCode's streams have and ours do not, by name: a pattern would excuse one that gets lost.
const ABSENT_EVENTS: &[(&[&str], &str)] = &[
    (
        &[
            "permission.v2.asked",
            "permission.v2.replied",
            "question.v2.asked",
            "question.v2.rejected",
            "question.v2.replied",
            "session.next.agent.switched",
            "session.next.compaction.delta",
            "session.next.compaction.ended",
            "session.next.compaction.started",
            "session.next.context.updated",
            "session.next.model.switched",
            "session.next.moved",
            "session.next.prompt.admitted",
            "session.next.prompted",
            "session.next.reasoning.delta",
            "session.next.reasoning.ended",
            "session.next.reasoning.started",
            "session.next.retried",
            "session.next.revert.cleared",
            "session.next.revert.committed",
            "session.next.revert.staged",
            "session.next.shell.ended",
            "session.next.shell.started",
            "session.next.step.ended",
            "session.next.step.failed",
            "session.next.step.started",
            "session.next.synthetic",
            "session.next.text.delta",
            "session.next.text.ended",
            "session.next.text.started",
            "session.next.tool.called",
            "session.next.tool.failed",
            "session.next.tool.input.delta",
            "session.next.tool.input.ended",
            "session.next.tool.input.started",
            "session.next.tool.progress",
            "session.next.tool.success",
        ],
        "it is V2's, which is not in this release",
    ),
    (
        &[
            "catalog.updated",
            "integration.connection.updated",
            "integration.updated",
            "models-dev.refreshed",
            "reference.updated",
        ],
        "clients ask for models and providers, and are not told when these change",
    ),
    (&["lsp.updated", "plugin.added"], "there are no language servers or plugins"),
    (
        &["file.watcher.updated", "project.directories.updated", "project.updated", "vcs.branch.updated"],
        "clients ask for files, branches and projects, and are not told when these change",
    ),
    (&["global.disposed", "server.instance.disposed"], "the server has no instances to dispose of"),
    (
        &["installation.update-available", "installation.updated"],
        "the program does not look for new versions of itself",
    ),
    (
        &["mcp.browser.open.failed", "mcp.tools.changed"],
        "clients ask for the state of MCP servers, and no browser is opened",
    ),
    (&["pty.created", "pty.deleted", "pty.exited", "pty.updated"], "there are no terminals in this release"),
    (
        &["tui.command.execute", "tui.prompt.append", "tui.session.select", "tui.toast.show"],
        "no terminal is steered from outside",
    ),
    (
        &["workspace.failed", "workspace.ready", "workspace.status", "worktree.failed", "worktree.ready"],
        "there are no workspaces on other machines, and no worktrees are made",
    ),
];

/// Fields that OpenCode's answers have and ours do not, by name.
const ABSENT_FIELDS: &[(&str, &[&str], &str)] = &[
    ("app.agents 200[]", &["color", "model", "prompt", "variant"], "these settings of agents are not shown"),
    ("project.current 200", PROJECT, "projects have no such thing in this release"),
    ("project.list 200[]", PROJECT, "projects have no such thing in this release"),
    ("project.directories 200[]", &["strategy"], "no folders are made, so there is no way in which one was"),
];

const PROJECT: &[&str] = &["commands", "icon", "name", "time.initialized"];

/// Everything else.
const DIFFERENCES: &[(&str, &str)] = &[
    // The door.
    ("* 401: only here (shape)", "every request needs the token, and the document says so"),
    ("* 403: only here (shape)", "a foreign Host or Origin is refused before anything else"),
    ("* 413: only here (shape)", "bodies have a limit"),
    ("* 415: only here (shape)", "a body that is not JSON is refused by its media type"),
    ("* 500: only here (shape)", "what breaks in the server is answered with a reference to its log"),
    ("* 503: only here (shape)", "large bodies wait for room, and not for ever"),
    // Places.
    ("* query workspace: only there", "there are no workspaces on other machines"),
    (
        "* query directory: only there",
        "the answer is the same for every folder, or the session knows its own",
    ),
    (
        "* header x-opencode-directory: only here (string)",
        "its clients send the folder there, its document leaves it out",
    ),
    ("session.create body.workspaceID: only there", "there are no workspaces on other machines"),
    ("session.create 409: only here (shape)", "what was thrown away is not made again"),
    (
        "experimental.controlPlane.moveSession 409: only here (shape)",
        "a session at work is not changed under it",
    ),
    ("session.create body.id: only here (id ses)", "V2 takes one, and asking again is harmless with it"),
    (
        "experimental.controlPlane.moveSession 400<BadRequest>: only here",
        "what is wrong with a request is said in one shape everywhere",
    ),
    (
        "experimental.controlPlane.moveSession 400<MoveSessionError>: only there",
        "what is wrong with a request is said in one shape everywhere",
    ),
    (
        "experimental.controlPlane.moveSession 404: only here (shape)",
        "a session that is not there is said to be missing",
    ),
    ("global.event 200 stream.workspace: only there", "there are no workspaces on other machines"),
    (
        "global.event 200 stream.directory: sometimes here, always there",
        "what the server says of itself has no place, there as here: recorded streams show it",
    ),
    // What is refused, and how.
    ("* 400: only there, where it is always there", "there is nothing in the request that could be wrong"),
    (
        "* 400*_tag: only there, where it is always there",
        "one shape for all bad requests: name and data, which its clients read everywhere",
    ),
    ("* 400<BadRequest>.data: only here (fields)", "one shape for all bad requests"),
    ("* 400<BadRequest>.name: only here (\"BadRequest\")", "one shape for all bad requests"),
    ("* 400<InvalidRequestError>: only there", "one shape for all bad requests"),
    ("* 400.data.kind: always here, sometimes there", "which piece of the request is wrong is always said"),
    ("* 400.data.kind<\"Payload\">: only there", "a body is called Body"),
    ("event.subscribe 400: only here (shape)", "a folder that is not absolute is refused"),
    (
        "* 404*.data: only here (fields)",
        "tagged errors carry the older shape too, because clients read either",
    ),
    ("* 404*.name: only here (*)", "tagged errors carry the older shape too"),
    ("* 409.data: only here (fields)", "tagged errors carry the older shape too"),
    ("* 409.name: only here (*)", "tagged errors carry the older shape too"),
    ("experimental.console.get 500*", "the same shape as for all that breaks in the server"),
    ("project.directories 404: only here (shape)", "a project that is not known is said to be unknown"),
    ("session.abort 404: only here (shape)", "a session that is not there is said to be missing"),
    ("session.create 404: only here (shape)", "a parent that is not there is said to be missing"),
    ("session.diff 404: only here (shape)", "a session that is not there is said to be missing"),
    (
        "session.summarize 409: only here (shape)",
        "a staged revert is made final first, which a session at work refuses",
    ),
    ("part.delete 409: only here (shape)", "a session at work is not changed under it"),
    ("part.update 409: only here (shape)", "a session at work is not changed under it"),
    (
        "session.prompt* 409: only here (one of)",
        "an id that is used for something else, or a revert on a session at work",
    ),
    ("session.prompt* 501: only here (shape)", "an answer in a given JSON schema is not in this release"),
    // What clients send.
    ("app.log body.extra: only there", "it is ignored"),
    ("session.list query limit: integer instead of number", "sessions are counted"),
    ("permission.respond body.message: only here (string)", "a reason is taken on the older path too"),
    (
        "session.list query roots<*>: only there",
        "a flag is a flag: the words true and false are how a query says it",
    ),
    (
        "session.prompt* body.model.variant: only here (string)",
        "a variant is taken with the model too, as sessions name it",
    ),
    (
        "session.prompt* body.parts[]<subtask>.model.variant: only here (string)",
        "a variant is taken with the model too",
    ),
    ("part.update body<step-finish>.tokens.*: integer instead of number", "tokens are counted"),
    (
        "part.update body<reasoning>.time: sometimes here, always there",
        "parts of other programs come without times",
    ),
    // What clients get.
    ("doc.get: only here", "OpenCode serves its document and leaves that out of it"),
    ("session.command 409: only here (one of)", "an id that is used for something else is no other prompt's"),
    ("session.init 409: only here (one of)", "an id that is used for something else is no other prompt's"),
    (
        "session.shell 409<ConflictError>: only here",
        "an id that is used for something else is no other command's",
    ),
    (
        "session.shell 409<SessionBusyError>.data: only here (fields)",
        "tagged errors carry the older shape too",
    ),
    ("session.shell 409<SessionBusyError>.name: only here (*)", "tagged errors carry the older shape too"),
    ("session.shell body.model.variant: only here (string)", "a variant is taken with the model too"),
    ("session.command 200.info<user>: only here", "the document has one shape for all messages"),
    ("session.prompt 200.info<user>: only here", "with noReply the prompt itself is answered, there as here"),
    ("* 200*<reasoning>.time: sometimes here, always there", "parts of other programs come without times"),
    ("* 200*.tool.messageID: id msg instead of string", "it is the id of a message"),
    ("* 200*<retry>.action: only there", "no such offer is made here"),
    ("app.agents 200[].native: always here, sometimes there", "all agents are built in"),
    ("* 200*.key: only there", "keys are never shown"),
    (
        "* 200*.capabilities.interleaved<fields>: only there",
        "the field of interleaved thoughts is the protocols' own business",
    ),
    ("* 200*.cost.tiers: only there", "the one tier that clients show has a field of its own"),
    ("* 200*.family: always here, sometimes there", "empty where it is not known"),
    ("* 200*.variants: always here, sometimes there", "empty where there are none"),
    (
        "* 200*.source<*>: only there",
        "no plugin brings a provider, and a key that `everturn auth` keeps shows as env: no route changes it",
    ),
    ("mcp.status 200{}<needs_client_registration>: only there", "nobody is registered, so nobody has to be"),
    ("vcs.get 200.default_branch: only there", "it is not looked for in this release"),
    ("experimental.console.get 200.activeOrgName: only there", "there is no console"),
    (
        "*config.get 200: map instead of fields",
        "the configuration is shown as it was written, with what only OpenCode understands",
    ),
    ("lsp.status 200[]: any instead of fields", "there is none, so the list is empty"),
    ("formatter.status 200[]: any instead of fields", "there is none, so the list is empty"),
    ("experimental.workspace.list 200[]: any instead of fields", "there is none, so the list is empty"),
    ("experimental.workspace.status 200[]: any instead of fields", "there is none, so the list is empty"),
    (
        "provider.auth 200{}: any instead of list",
        "nobody can sign in through the server, so there is no way to",
    ),
    // Streams.
    ("event.subscribe 200 stream<server.heartbeat>: only here", "it is sent and not in its document"),
    ("global.event 200 stream.payload<server.heartbeat>: only here", "it is sent and not in its document"),
    ("global.event 200 stream.payload<sync>: only there", "it is V2's, which is not in this release"),
];
