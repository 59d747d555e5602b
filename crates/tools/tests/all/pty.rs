//! Terminals: a real shell on a real pseudo-terminal.

use std::time::Duration;

use everturn_tools::process::{Launcher, Secrets};
use everturn_tools::pty::{
    NewPty, PtyAttachment, PtyChunk, PtyError, PtyEvent, PtyInfo, PtySize, PtyStatus, Ptys, ReplayFrom,
};
use tokio::time::timeout;

use crate::bash::{PATIENCE, quick, watch};
use crate::harness::Project;
use crate::sandbox::enclosed_launcher;

fn ptys() -> Ptys {
    Ptys::new(quick().launcher)
}

/// A shell that prints nothing but what it is told to.
fn shell(project: &Project) -> NewPty {
    NewPty {
        command: "bash".to_owned(),
        args: ["--norc", "--noprofile", "-i"].map(str::to_owned).to_vec(),
        cwd: project.scope.directory.clone(),
        title: Some("work".to_owned()),
        env: [("PS1", ""), ("TERM", "dumb"), ("EXTRA", "more")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        size: PtySize { rows: 30, cols: 100 },
    }
}

fn program(project: &Project, line: &str) -> NewPty {
    NewPty { args: ["-c", line].map(str::to_owned).to_vec(), ..shell(project) }
}

/// A client: what it sees, and what of that it has not looked at yet.
struct Client {
    view: PtyAttachment,
    text: String,
}

fn attach(ptys: &Ptys, id: &str, from: ReplayFrom) -> Client {
    Client { view: ptys.attach(id, from).unwrap(), text: String::new() }
}

impl Client {
    /// Reads until the text has come, and returns everything up to its end.
    async fn until(&mut self, wanted: &str) -> String {
        loop {
            if let Some(at) = self.text.find(wanted) {
                let rest = self.text.split_off(at + wanted.len());
                return std::mem::replace(&mut self.text, rest);
            }
            match timeout(PATIENCE, self.view.next()).await {
                Ok(Some(PtyChunk::Output { bytes, .. })) => {
                    self.text.push_str(&String::from_utf8_lossy(&bytes));
                }
                other => panic!("{wanted:?} did not come but {other:?} after {:?}", self.text),
            }
        }
    }

    /// Reads to the end, and returns how the program ended.
    async fn ended(&mut self) -> Option<i32> {
        loop {
            match timeout(PATIENCE, self.view.next()).await.unwrap() {
                Some(PtyChunk::Output { .. }) => {}
                Some(PtyChunk::Ended(code)) => return code,
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_shell_answers_and_ends() {
    for launcher in [quick().launcher, Launcher::default()] {
        let project = Project::new();
        let ptys = Ptys::new(launcher);
        let mut events = ptys.events();
        let info = ptys.create("pty_1".to_owned(), shell(&project)).await.unwrap();
        let expected = PtyInfo {
            id: "pty_1".to_owned(),
            title: "work".to_owned(),
            command: "bash".to_owned(),
            args: ["--norc", "--noprofile", "-i"].map(str::to_owned).to_vec(),
            cwd: project.scope.directory.clone(),
            status: PtyStatus::Running,
            pid: info.pid,
            exit_code: None,
        };
        assert_eq!((&info, &ptys.list()), (&expected, &vec![expected.clone()]));
        let mut view = attach(&ptys, "pty_1", ReplayFrom::Start);
        // It is a terminal, in front, with the environment that was asked for.
        ptys.write("pty_1", b"tty >/dev/null && echo \"<$TERM $OPENCODE_TERMINAL $EXTRA $((6*7))>\"\n")
            .unwrap();
        assert!(view.until("42>").await.contains("<xterm-256color 1 more 42>"));
        ptys.write("pty_1", b"stty size\n").unwrap();
        view.until("30 100").await;
        let renamed =
            ptys.update("pty_1", Some("play".to_owned()), Some(PtySize { rows: 50, cols: 132 })).unwrap();
        assert_eq!(renamed.title, "play");
        ptys.write("pty_1", b"stty size\n").unwrap();
        view.until("50 132").await;
        ptys.write("pty_1", b"exit 5\n").unwrap();
        assert_eq!(view.ended().await, Some(5));
        assert_eq!(view.view.next().await, None);
        let ended =
            PtyInfo { title: "play".to_owned(), status: PtyStatus::Exited, exit_code: Some(5), ..expected };
        assert!(matches!(events.recv().await, Ok(PtyEvent::Created(first)) if first == info));
        assert!(matches!(events.recv().await, Ok(PtyEvent::Updated(second)) if second == renamed));
        assert_eq!(timeout(PATIENCE, events.recv()).await.unwrap(), Ok(PtyEvent::Exited(ended.clone())));
        assert_eq!(ptys.get("pty_1").unwrap(), ended);
        assert!(matches!(ptys.write("pty_1", b"x"), Err(PtyError::Ended(_))));
        ptys.close("pty_1").await.unwrap();
        assert_eq!(events.recv().await, Ok(PtyEvent::Deleted("pty_1".to_owned())));
        assert!(matches!(ptys.get("pty_1"), Err(PtyError::NotFound(_))));
    }
}

#[tokio::test]
async fn keys_interrupt_what_runs() {
    let project = Project::new();
    for launcher in [quick().launcher, enclosed_launcher(&project)] {
        check_keys(&project, Ptys::new(launcher)).await;
    }
}

async fn check_keys(project: &Project, ptys: Ptys) {
    let mut create = shell(project);
    create.env.push(("PS1".to_owned(), "next> ".to_owned()));
    ptys.create("a".to_owned(), create).await.unwrap();
    let mut view = attach(&ptys, "a", ReplayFrom::Start);
    // The job itself says that it runs: only then do keys go to it. And a shell forgets what is typed before it asks.
    let job = b"bash -c 'echo r\"\"eady; read x'\n";
    view.until("next> ").await;
    ptys.write("a", job).unwrap();
    view.until("ready").await;
    ptys.write("a", b"\x03").unwrap();
    view.until("next> ").await;
    ptys.write("a", b"echo sta\"\"tus $?\n").unwrap();
    view.until("status 130").await;
    // Halted by its key, a job can be brought back.
    view.until("next> ").await;
    ptys.write("a", job).unwrap();
    view.until("ready").await;
    ptys.write("a", b"\x1a").unwrap();
    view.until("Stopped").await;
    view.until("next> ").await;
    ptys.write("a", b"fg; echo ba\"\"ck\n\n").unwrap();
    view.until("back").await;
    // A program that is not a shell gets the key too, and the supervisor in its group does not mind.
    // Not `read`: a signal just before it waits is remembered only until a line comes.
    let line = "trap 'echo caught; exit 9' INT; echo ready; while sleep 1; do :; done";
    ptys.create("b".to_owned(), program(project, line)).await.unwrap();
    let mut view = attach(&ptys, "b", ReplayFrom::Start);
    view.until("ready").await;
    ptys.write("b", b"\x03").unwrap();
    view.until("caught").await;
    assert_eq!(view.ended().await, Some(9));
}

#[tokio::test]
async fn a_client_that_reconnects_misses_nothing() {
    let project = Project::new();
    let ptys = ptys();
    ptys.create(
        "a".to_owned(),
        program(&project, "stty -echo; echo one; read x; echo two; read x; echo three"),
    )
    .await
    .unwrap();
    let mut view = attach(&ptys, "a", ReplayFrom::Start);
    assert_eq!(view.until("one\r\n").await, "one\r\n");
    let cursor = view.view.cursor();
    drop(view);
    ptys.write("a", b"\n").unwrap();
    let mut other = attach(&ptys, "a", ReplayFrom::Cursor(cursor));
    assert_eq!(other.until("two\r\n").await, "two\r\n");
    ptys.write("a", b"\n").unwrap();
    assert_eq!(other.until("three\r\n").await, "three\r\n");
    assert_eq!(other.ended().await, Some(0));
    // All of it is still there for one who comes when the program has ended.
    let mut late = attach(&ptys, "a", ReplayFrom::Start);
    assert_eq!(late.until("three\r\n").await, "one\r\ntwo\r\nthree\r\n");
    let mut again = attach(&ptys, "a", ReplayFrom::Cursor(cursor));
    assert_eq!(again.until("three\r\n").await, "two\r\nthree\r\n");
}

#[tokio::test]
async fn closing_stops_everything() {
    for line in [
        "exec 9>pipe; sleep 1000 & setsid -f sleep 1000; echo r\"\"eady; sleep 1000\n",
        "exec 9>pipe; trap '' TERM HUP INT; (trap '' HUP; sleep 1000) & echo r\"\"eady; sleep 1000\n",
        "exec 9>pipe; nohup setsid env -i sleep 1000 >/dev/null 2>&1 & disown; echo r\"\"eady\n",
    ] {
        let check = async |project: &Project, launcher: Launcher| {
            let gone = watch(&project.path("pipe"));
            let ptys = Ptys::new(launcher);
            ptys.create("a".to_owned(), shell(project)).await.unwrap();
            let mut view = attach(&ptys, "a", ReplayFrom::Start);
            ptys.write("a", line.as_bytes()).unwrap();
            view.until("ready").await;
            timeout(PATIENCE, ptys.close("a")).await.unwrap().unwrap();
            timeout(PATIENCE, gone).await.unwrap().unwrap();
            assert!(ptys.list().is_empty());
        };
        check(&Project::new(), quick().launcher).await;
        let project = Project::new();
        check(&project, enclosed_launcher(&project)).await;
    }
}

#[tokio::test]
async fn terminals_end_with_their_holder() {
    let project = Project::new();
    let gone = watch(&project.path("pipe"));
    let ptys = ptys();
    ptys.create("a".to_owned(), shell(&project)).await.unwrap();
    let mut view = attach(&ptys, "a", ReplayFrom::Start);
    ptys.write("a", b"exec 9>pipe; setsid -f sleep 1000; echo r\"\"eady; sleep 1000\n").unwrap();
    view.until("ready").await;
    drop(ptys);
    timeout(PATIENCE, gone).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_flood_is_bounded_and_holds_nobody_up() {
    let project = Project::new();
    let ptys = ptys();
    let line = "stty -opost -echo; echo begin; read x; head -c 8M /dev/zero | tr '\\0' x; echo; echo end";
    ptys.create("a".to_owned(), program(&project, line)).await.unwrap();
    let mut slow = attach(&ptys, "a", ReplayFrom::Start);
    assert_eq!(slow.until("begin\n").await, "begin\n");
    ptys.write("a", b"\n").unwrap();
    // Nobody reads; the program comes to its end all the same.
    let all = async {
        while ptys.get("a").unwrap().status == PtyStatus::Running {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, all).await.unwrap();
    assert_eq!(slow.view.next().await, Some(PtyChunk::TooSlow));
    assert_eq!(slow.view.next().await, None);
    let mut back = attach(&ptys, "a", ReplayFrom::Cursor(slow.view.cursor().min(6)));
    let total = 6 + 8 * 1024 * 1024 + 5;
    let kept = 2 * 1024 * 1024;
    assert_eq!(back.view.next().await, Some(PtyChunk::Missed(total - kept - 6)));
    let mut text = String::new();
    while let Some(PtyChunk::Output { bytes, .. }) = back.view.next().await {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    assert_eq!(text.len() as u64, kept);
    assert!(text.ends_with("xx\nend\n"));
}

#[tokio::test]
async fn input_that_nobody_reads_is_refused_in_the_end() {
    let project = Project::new();
    let ptys = ptys();
    ptys.create("a".to_owned(), program(&project, "stty raw -echo; echo ready; sleep 1000")).await.unwrap();
    let mut view = attach(&ptys, "a", ReplayFrom::Start);
    view.until("ready").await;
    let much = vec![b'x'; 1024 * 1024];
    let refused = (0..10).find_map(|_| ptys.write("a", &much).err());
    assert!(matches!(refused, Some(PtyError::NotReading(_))));
    timeout(PATIENCE, ptys.close("a")).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_cannot_be_started_is_told() {
    for launcher in [quick().launcher, Launcher::default()] {
        let project = Project::new();
        let ptys = Ptys::new(launcher);
        // By its path: a search along PATH may find a folder that is not ours to look into.
        let missing = project.path("no-such-program").display().to_string();
        let missing = NewPty { command: missing, ..shell(&project) };
        let error = ptys.create("a".to_owned(), missing).await.unwrap_err();
        assert!(
            matches!(&error, PtyError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
        );
        assert!(error.to_string().contains("no-such-program in /"), "{error}");
        let nowhere = NewPty { cwd: project.path("nowhere"), ..shell(&project) };
        assert!(matches!(ptys.create("a".to_owned(), nowhere).await, Err(PtyError::Start { .. })));
        assert!(ptys.list().is_empty());
        ptys.create("a".to_owned(), program(&project, "true")).await.unwrap();
        assert!(matches!(ptys.create("a".to_owned(), shell(&project)).await, Err(PtyError::Exists(_))));
        assert!(matches!(ptys.update("b", None, None), Err(PtyError::NotFound(_))));
        assert!(matches!(ptys.close("b").await, Err(PtyError::NotFound(_))));
    }
}

#[tokio::test]
async fn keys_are_kept_from_terminals() {
    let project = Project::new();
    let mut launcher = quick().launcher;
    launcher.secrets = Secrets::found_by(|| vec!["CARGO_PKG_NAME".to_owned()]);
    let ptys = Ptys::new(launcher);
    ptys.create("a".to_owned(), program(&project, "echo \"<${CARGO_PKG_NAME-none}>\"")).await.unwrap();
    let mut view = attach(&ptys, "a", ReplayFrom::Start);
    assert_eq!(view.until(">\r\n").await, "<none>\r\n");
}

#[tokio::test]
async fn one_name_is_opened_once_and_never_too_many() {
    // Two calls that looked before either had started both went on: the second took the first one's name, and
    // there could be more terminals than allowed.
    let project = Project::new();
    let ptys = Ptys::new(Launcher::default());
    let open = |id: String| ptys.create(id, program(&project, "sleep 1000"));
    let (first, second) = tokio::join!(open("a".to_owned()), open("a".to_owned()));
    assert!(matches!((&first, &second), (Ok(_), Err(PtyError::Exists(_)))), "{first:?} {second:?}");
    let results = futures_util::future::join_all((0..70).map(|number| open(format!("b{number}")))).await;
    assert_eq!(results.iter().filter(|result| matches!(result, Err(PtyError::TooMany(64)))).count(), 7);
    assert_eq!(ptys.list().len(), 64);
    // A place that was taken for nothing is free again.
    ptys.close("a").await.unwrap();
    let nowhere = NewPty { cwd: project.path("nowhere"), ..shell(&project) };
    assert!(matches!(ptys.create("a".to_owned(), nowhere).await, Err(PtyError::Start { .. })));
    open("a".to_owned()).await.unwrap();
}

#[tokio::test]
async fn more_than_ever_waits_is_too_large() {
    // It was said that the program does not read, however often it was tried.
    let project = Project::new();
    let ptys = ptys();
    ptys.create("a".to_owned(), program(&project, "stty raw -echo; cat > /dev/null")).await.unwrap();
    let most = 4 * 1024 * 1024;
    let error = ptys.write("a", &vec![b'x'; most + 1]).unwrap_err();
    assert!(matches!(&error, PtyError::TooLarge { id, most: 4_194_304 } if id == "a"), "{error}");
    ptys.write("a", &vec![b'x'; most]).unwrap();
}
