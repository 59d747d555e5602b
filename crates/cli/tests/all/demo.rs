//! `everturn demo`: works on a machine that has nothing, and shows what changed.

use crate::shell::Home;

#[test]
fn the_demo_shows_the_change() {
    let home = Home::new();
    let printed = home.run(&["demo"]).success();
    let (talk, change) = printed.split_once("What changed:\n").expect("a heading for the change");
    assert!(talk.contains("> Greet Everturn instead of the world in greeting.txt\n"), "{talk}");
    assert!(talk.contains("[edit] greeting.txt\n"), "{talk}");
    let (patch, rest) = change.split_once("\n\n").expect("a line under the change");
    let hunk: Vec<&str> = patch.lines().skip_while(|line| !line.starts_with("@@")).skip(1).collect();
    assert_eq!(hunk, ["-Hello, world", "+Hello, Everturn"]);
    let (count, _) = rest.split_once(" durable events were written").expect("the number of events");
    assert!(count.parse::<u32>().unwrap() > 5, "{rest}");
    assert_eq!(home.files(), Vec::<String>::new(), "the demo leaves nothing behind");
}
