{
  description = "Task Executor: setTimeout and setInterval as a service";

  # NixOS 25.05 at one commit, as in flake.lock.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/ac62194c3917d5f474c1a844b6fd6da2db95077d";

  # A shell for the Makefile, which installs the pinned wheels into .venv. No package: docs/how-to/deployment.md.
  outputs =
    { nixpkgs, ... }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      shell =
        pkgs:
        pkgs.mkShell {
          packages = [ pkgs.python312 pkgs.gnumake pkgs.curl pkgs.jq ];
          # Wheels with compiled parts load these at run time.
          LD_LIBRARY_PATH = pkgs.lib.makeLibraryPath [ pkgs.stdenv.cc.cc.lib pkgs.zlib pkgs.openssl ];
          shellHook = ''
            echo "make demo | make check | make help"
          '';
        };
    in
    {
      devShells = nixpkgs.lib.genAttrs systems (system: { default = shell nixpkgs.legacyPackages.${system}; });
    };
}
