{
  description = "Task Executor: setTimeout and setInterval as a service";

  # NixOS 25.05 at one commit. `nix flake lock` adds its hash; there is no flake.lock yet, because it takes Nix to write it.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/ac62194c3917d5f474c1a844b6fd6da2db95077d";

  # Not evaluated on the machine this was written on (it has no store of Nix).
  outputs =
    { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      each = of: nixpkgs.lib.genAttrs of;
      of = system: nixpkgs.legacyPackages.${system};
      # What wheels with compiled parts look for at run time.
      libraries = pkgs: [ pkgs.stdenv.cc.cc.lib pkgs.zlib pkgs.openssl ];
    in
    {
      # The product as the Dockerfile installs it: what the tests ran with, by the hashes of requirements.lock, and not
      # what nixpkgs happens to have.
      packages = each [ "x86_64-linux" "aarch64-linux" ] (
        system:
        let
          pkgs = of system;
          python = pkgs.python312;
          wheels = pkgs.stdenvNoCC.mkDerivation {
            name = "task-executor-wheels";
            src = ./requirements.lock;
            dontUnpack = true;
            nativeBuildInputs = [ python.pkgs.pip ];
            SSL_CERT_FILE = "${pkgs.cacert}/etc/ssl/certs/ca-bundle.crt";
            buildPhase = "pip download --no-cache-dir --only-binary :all: --require-hashes -r $src -d $out";
            dontInstall = true;
            outputHashMode = "recursive";
            outputHashAlgo = "sha256";
            # The first build says which it is, for each system and each requirements.lock; all files are pinned by theirs.
            outputHash = pkgs.lib.fakeHash;
          };
        in
        {
          default = pkgs.stdenv.mkDerivation {
            name = "task-executor";
            src = self;
            nativeBuildInputs = [ python pkgs.autoPatchelfHook ];
            buildInputs = libraries pkgs;
            buildPhase = ''
              ${python.interpreter} -m venv $out
              $out/bin/pip install --no-index --find-links ${wheels} --require-hashes -r requirements.lock
              $out/bin/pip install --no-index --no-deps --no-build-isolation .
              $out/bin/pip uninstall --yes setuptools pip
            '';
            dontInstall = true;
            meta.mainProgram = "flask";
          };
        }
      );

      # A shell with what the Makefile wants; the Makefile then installs the pinned wheels into .venv.
      devShells = each systems (
        system:
        let
          pkgs = of system;
        in
        {
          default = pkgs.mkShell {
            packages = [ pkgs.python312 pkgs.gnumake pkgs.curl pkgs.jq ];
            LD_LIBRARY_PATH = pkgs.lib.makeLibraryPath (libraries pkgs);
            shellHook = ''
              echo "make demo | make check | make help"
            '';
          };
        }
      );
    };
}
