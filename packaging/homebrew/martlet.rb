# A formula for a tap; `./x dist --url BASE` fills in the archive's address and checksum.
class Martlet < Formula
  desc "In-memory data server that speaks the Redis protocol, and its tools"
  url "@URL@"
  version "@VERSION@"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "rust" => :build
  # io_uring and epoll.
  depends_on :linux

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/martlet")
    etc.install "packaging/martlet.conf"
    inreplace etc/"martlet.conf" do |text|
      text.gsub! "/var/lib/martlet", var/"db/martlet"
      text.gsub! "/var/log/martlet/martlet.log", var/"log/martlet.log"
      text.gsub! "/run/martlet/martlet.pid", var/"run/martlet.pid"
    end
  end

  def post_install
    (var/"db/martlet").mkpath
    (var/"run").mkpath
  end

  service do
    run [opt_bin/"martlet", "server", etc/"martlet.conf"]
    keep_alive true
    working_dir var
  end

  test do
    port = free_port
    server = spawn bin/"martlet", "server", "--port", port.to_s, "--save", ""
    begin
      sleep 2
      assert_match "PONG", shell_output("#{bin}/martlet cli -p #{port} PING")
    ensure
      Process.kill "TERM", server
      Process.wait server
    end
  end
end
