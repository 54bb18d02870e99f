//! `help` and `man`: the files beside an installed program.

use crate::Place;

#[test]
fn help_shows_commands_and_pages_and_names_them_when_there_is_none() {
    let place = Place::new();
    for (words, says) in [
        (&["help"][..], "notation                     how limits and subjects are written"),
        (&["help", "check"], "Check a request, and charge it when every limit admits it"),
        (&["help", "queue", "push"], "Offer a job; a full queue refuses it"),
        (&["help", "notation"], "# How limits and subjects are written"),
        (&["help", "queue"], "# Queues: the leaky bucket"),
        (&["help", "queue"], "\nThe options of the command: tollgate queue --help\n"),
    ] {
        let (code, out, error) = place.run(words);
        assert!(code == 0 && out.contains(says) && error.is_empty(), "{words:?}: {out}{error}");
    }
    for (words, says) in [
        (
            &["help", "nothing"][..],
            "no page `nothing`: `tollgate help` lists them, and the pages are",
        ),
        (&["help", "queue", "nothing"], "`queue` has no command `nothing`"),
        (&["help", "page", "queue"], "there is no command and no page `page`"),
    ] {
        let (code, out, error) = place.run(words);
        assert!(code == 2 && out.is_empty() && error.contains(says), "{words:?}: {error}");
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let place = Place::new();
    let (code, out, _) = place.run(&["man"]);
    assert!(code == 0 && out.contains(".TH tollgate 1"), "{out}");
    let folder = place.path().join("man1");
    let folder = folder.to_str().unwrap();
    let (code, _, error) = place.run(&["man", folder]);
    assert!(code == 2 && error.contains("there is no such folder: make it first"), "{error}");
    std::fs::create_dir(folder).unwrap();
    assert_eq!(place.run(&["man", folder]).0, 0);
    for (page, says) in [
        ("tollgate.1", "tollgate\\-check(1)"),
        ("tollgate-queue-push.1", "Offer a job"),
        ("tollgate-admin-reset.1", "Reset the count"),
    ] {
        let text = std::fs::read_to_string(format!("{folder}/{page}")).unwrap();
        assert!(text.contains(says), "{page}: {text}");
    }
}
