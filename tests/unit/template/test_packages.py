from stormcell.template.packages import differences, installed


def test_what_was_removed_or_never_configured_is_not_installed():
    status = "installed curl=7.88.1-10\nconfig-files nano=7.2-1\nnot-installed vim=\ninstalled apt=2.6.1\n"
    assert installed(status) == ["apt=2.6.1", "curl=7.88.1-10"]


def test_packages_that_differ_are_named_with_both_versions():
    wanted = ["apt=2.6.1", "curl=7.88.1-10", "gone=1:2.0=rc1"]
    found = ["apt=2.6.1", "curl=7.88.1-11", "new=3"]
    assert differences(wanted, found) == [
        "curl: 7.88.1-10, here 7.88.1-11",
        "gone: 1:2.0=rc1, here absent",
        "new: absent, here 3",
    ]
    assert differences(wanted, list(reversed(wanted))) == []
