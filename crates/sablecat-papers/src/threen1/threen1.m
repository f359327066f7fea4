threen1	; The 3n+1 problem, by processes that share one database of GT.M.
	;
	; ^next                 the first integer that nobody has claimed
	; ^steps(number)        how many steps lead from the number to 1; nothing for 1 itself
	; ^account(worker)      what a worker did: reads, updates, steps of its longest sequence, highest number
	;
	; Each entry is called by "mumps -run", with its parameters on the command line. An error ends the process with the status 1.
	quit
	;
begin	; Parameter: the first integer.
	set $etrap="do fail^threen1"
	set ^next=+$zcmdline
	quit
	;
work	; Parameters: the worker's number, the last integer, how many integers to claim at a time.
	; Each store is an update of its own: a popped stack as one transaction took a third longer.
	new account,block,claimed,depth,end,finish,highest,i,longest,n,number,reads,stack,steps,to,updates,worker
	set $etrap="do fail^threen1"
	set worker=$piece($zcmdline," ",1),finish=$piece($zcmdline," ",2),block=$piece($zcmdline," ",3)
	set (reads,updates,longest,highest)=0
	for  set end=$increment(^next,block),claimed=end-block quit:claimed>finish  do
	. set to=$select(end>finish:finish,1:end-1)
	. for n=claimed:1:to do one
	set ^account(worker)=reads_" "_updates_" "_longest_" "_highest
	quit
	;
one	; Makes the steps of n known: goes on from it to a known number, or to 1, and comes back storing.
	set number=n,depth=0,steps=0
	for  set:number>highest highest=number quit:number=1  set reads=reads+1,steps=$get(^steps(number)) quit:steps  set depth=depth+1,stack(depth)=number,number=$select(number#2:3*number+1,1:number\2)
	quit:'depth
	for i=depth:-1:1 set steps=steps+1,^steps(stack(i))=steps
	set updates=updates+depth
	set:steps>longest longest=steps
	quit
	;
results	; Prints ^next, then the accounts, a line each.
	new worker
	set $etrap="do fail^threen1"
	write $get(^next),!
	set worker="" for  set worker=$order(^account(worker)) quit:worker=""  write ^account(worker),!
	quit
	;
records	; Prints every number and its steps, a line each.
	new number
	set $etrap="do fail^threen1"
	set number="" for  set number=$order(^steps(number)) quit:number=""  write number," ",^steps(number),!
	quit
	;
fail	; Says what went wrong, and ends.
	set $etrap="zhalt 1"
	open "/dev/stderr" use "/dev/stderr" write $zstatus,!
	zhalt 1
