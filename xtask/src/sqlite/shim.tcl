# Runs one of SQLite's test files, and writes of each case whether it passed.
#
#     testfixture shim.tcl CASES FILE [OPTIONS]
#
# CASES is where that goes, a line a case. Where a database is a directory, commands that copy and remove
# files do what they do to files.

namespace eval sablecat {
  variable cases [open [lindex $argv 0] w]
  fconfigure $cases -buffering line

  proc is_environment {path} {
    file exists [file join $path sablecat.db]
  }

  # What `file delete` and `file copy` are given: whether by force, and the paths.
  proc taken {words} {
    set force {}
    while {[string match -* [lindex $words 0]]} {
      set word [lindex $words 0]
      set words [lrange $words 1 end]
      if {$word eq "--"} break
      lappend force $word
    }
    list $force $words
  }

  proc delete {args} {
    lassign [taken $args] force paths
    foreach path $paths {
      if {[is_environment $path]} {
        ::tcl::file::delete -force -- $path
      } else {
        ::tcl::file::delete {*}$force -- $path
      }
    }
  }

  # Puts one in the place of a database that is there, and not into its directory.
  proc placed {how words} {
    lassign [taken $words] force paths
    set to [lindex $paths end]
    if {[llength $paths] == 2 && $force ne {} && [is_environment $to]
        && [file exists [lindex $paths 0]]} {
      ::tcl::file::delete -force -- $to
    }
    # What is copied while it is open has to be in its files.
    if {$how eq "copy" && [is_environment [lindex $paths 0]]} {
      foreach db {db db2 db3} {
        catch {::$db eval {PRAGMA wal_checkpoint}}
      }
    }
    ::tcl::file::$how {*}$force -- {*}$paths
  }
  proc copy {args} {placed copy $args}
  proc rename {args} {placed rename $args}

  # Stands in for tester.tcl's own, and says what came of it.
  proc test {name command expected} {
    variable cases
    set fixed $name
    fix_testname fixed
    set errors [set_test_counter errors]
    uplevel [list ::sablecat::original_test $name $command $expected]
    set kind [expr {[set_test_counter errors] > $errors ? "failed" : "passed"}]
    puts $cases "$kind [string map {\n { }} $fixed]"
  }

  proc after_tester {} {
    if {[info commands ::sablecat::original_test] eq ""} {
      ::rename ::do_test ::sablecat::original_test
      proc ::do_test {name command expected} {
        uplevel [list ::sablecat::test $name $command $expected]
      }
      # There is no byte that says of which version an environment is.
      ::rename ::hexio_write ::sablecat::original_write
      proc ::hexio_write {file args} {
        if {![::sablecat::is_environment $file]} {
          ::sablecat::original_write $file {*}$args
        }
      }
      # It calls the methods of a file that SQLite has open, and does not look whether there are any.
      ::rename ::atomic_batch_write ::sablecat::original_atomic
      proc ::atomic_batch_write {file} {
        expr {[file isfile $file] ? [::sablecat::original_atomic $file] : 0}
      }
    }
  }

  set map [namespace ensemble configure ::file -map]
  dict set map delete ::sablecat::delete
  dict set map copy ::sablecat::copy
  dict set map rename ::sablecat::rename
  namespace ensemble configure ::file -map $map
}

rename source sablecat_source
proc source {args} {
  set code [catch {uplevel 1 [list sablecat_source {*}$args]} result options]
  if {[file tail [lindex $args end]] eq "tester.tcl"} {
    sablecat::after_tester
  }
  return -options $options $result
}

set argv0 [lindex $argv 1]
set argv [lrange $argv 2 end]
source $argv0
