import pytest

from stormcell.spec.errors import HostError
from stormcell.template.sources import debian_sources, host_suite, passed_options

DEB822 = """\
# a comment
Types: deb deb-src
URIs: http://deb.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://security.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


@pytest.fixture
def apt(tmp_path):
    (tmp_path / "sources.list.d").mkdir()

    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path

    return write


def test_the_entries_of_the_suite_and_nothing_else(apt):
    text = debian_sources("bookworm", apt("sources.list.d/debian.sources", DEB822))
    assert "Suites: bookworm bookworm-updates\n" in text and "Suites: bookworm-security\n" in text
    assert "backports" not in text and "contrib" not in text and "deb-src" not in text
    assert text.count("Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg") == 2


def test_one_line_sources_are_read_too(apt):
    path = apt(
        "sources.list",
        "# deb http://old.example/debian bullseye main\n"
        "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
        "http://deb.example/debian bookworm main # x\n"
        "deb-src http://deb.example/debian bookworm main\n",
    )
    assert debian_sources("bookworm", path) == (
        "Types: deb\nURIs: http://deb.example/debian\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
        "Suites: bookworm\nComponents: main\n"
    )


def test_others_that_use_debians_suite_names_are_left_out(apt):
    apt("sources.list.d/debian.sources", DEB822)
    path = apt(
        "sources.list.d/vendor.sources",
        "Types: deb\nURIs: http://vendor.example/apt\nSuites: bookworm\nComponents: main\nSigned-By: /etc/vendor.gpg\n",
    )
    assert "vendor" not in debian_sources("bookworm", path)


def test_a_mirror_with_a_key_of_its_own_is_taken_when_there_is_no_other(apt):
    path = apt(
        "sources.list.d/mirror.sources",
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\nSigned-By: /etc/own.gpg\n",
    )
    assert "mirror.example" in debian_sources("bookworm", path)


def test_an_inline_key_is_kept_whole(apt):
    key = "Signed-By:\n -----BEGIN PGP PUBLIC KEY-----\n .\n debian-archive mQINBF\n -----END PGP PUBLIC KEY-----\n"
    path = apt(
        "sources.list.d/a.sources",
        f"Types: deb\nURIs: http://deb.example/debian\nSuites: bookworm\nComponents: main\n{key}",
    )
    assert "\n .\n debian-archive mQINBF\n" in debian_sources("bookworm", path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        DEB822.replace("bookworm", "trixie"),
        "Enabled: no\n" + DEB822.split("\n\n")[0].replace("# a comment\n", ""),
        "Types: deb\nURIs: http://deb.example/debian\nSuites: bookworm\nComponents: contrib\n",
    ],
)
def test_a_host_without_the_suite_is_told_so(apt, text):
    with pytest.raises(HostError, match="bookworm"):
        debian_sources("bookworm", apt("sources.list.d/debian.sources", text))


def test_the_guest_is_of_the_hosts_release(tmp_path):
    release = tmp_path / "os-release"
    release.write_text('NAME="Debian GNU/Linux"\nID=debian\nVERSION_CODENAME=bookworm\n')
    assert host_suite(release) == "bookworm"
    release.write_text("ID=fedora\n")
    with pytest.raises(HostError, match="no Debian"):
        host_suite(release)


def test_only_settings_that_reach_the_mirror_are_passed_on():
    dump = (
        'Acquire "";\nAcquire::http::Proxy "http://proxy.example:3128";\nAcquire::https::CAInfo "/etc/ca.pem";\n'
        'Acquire::http::Proxy::internal "";\nAcquire::IndexTargets::deb "";\nAcquire::Retries "3";\n'
    )
    assert passed_options(dump) == [
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::https::CAInfo "/etc/ca.pem";',
        'Acquire::Retries "3";',
    ]
