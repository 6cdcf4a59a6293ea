{
  description = "Task Executor: setTimeout and setInterval as a service";

  # NixOS 25.05 at one commit. `nix flake lock` adds its hash; there is no flake.lock yet, because it takes Nix to write it.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/ac62194c3917d5f474c1a844b6fd6da2db95077d";

  # A shell with what the Makefile wants; the Makefile then installs the pinned wheels into .venv.
  # Not evaluated on the machine this was written on (it has no Nix).
  outputs =
    { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      each = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
    in
    {
      devShells = each (pkgs: {
        default = pkgs.mkShell {
          packages = [ pkgs.python312 pkgs.gnumake pkgs.curl pkgs.jq ];
          # Wheels with compiled parts look for these at run time.
          LD_LIBRARY_PATH = pkgs.lib.makeLibraryPath [ pkgs.stdenv.cc.cc.lib pkgs.zlib pkgs.openssl ];
          shellHook = ''
            echo "make demo | make check | make help"
          '';
        };
      });
    };
}
