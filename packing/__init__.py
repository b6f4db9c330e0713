"""Packages of Weir, made from a clone: programs, Debian packages, images, wheels, what is in them, and checksums.

``tree``      what is packed: version, commit, time; for which machines
``programs``  the static program, by cargo
``contents``  what was linked into a program: CycloneDX, and the licences of all of it
``archives``  tar and gzip whose bytes depend on nothing but what is in them
``debian``    the .deb, by dpkg-deb; its texts are in ``deb/``
``image``     the image: an OCI layout in a tar
``wheel``     weir-lab with the program, by hatchling and lab/hatch_build.py

``make packages`` calls `__main__`. Two builds of a commit by the same compiler are the same byte by byte, wherever they
are made: paths are taken out of the programs, and all times are that of the commit. Leaves out: publishing.
"""
